#include "metadata/tree_rows.h"
#include "tests/support/matchers.h"
#include "tests/support/metadata_tree.h"

namespace quadfs::metadata {
namespace {

using test::IsError;
using test::IsOk;
using test::TestTree;
using test::User;

// Two directories, a with file f and directory s, b with file g.
class RenameTest : public testing::Test {
 protected:
  TestTree tree_;
  InodeId a_ = tree_.MakeDirectory(kRootInode, "a");
  InodeId b_ = tree_.MakeDirectory(kRootInode, "b");
  InodeId f_ = tree_.Create(a_, "f");
  InodeId s_ = tree_.MakeDirectory(a_, "s");
  InodeId g_ = tree_.Create(b_, "g");
};

TEST_F(RenameTest, AFileMovesWithItsTotalsAndEveryonesTimes) {
  ASSERT_THAT(tree_.Publish(f_, Generation(0), Generation(1), 10), IsOk());
  const auto moved = tree_.Rename(a_, "f", b_, "h");
  ASSERT_THAT(moved, IsOk());
  EXPECT_EQ(moved->attributes.inode, f_);
  EXPECT_EQ(moved->attributes.parent, b_);
  EXPECT_EQ(moved->attributes.ctime_ns, tree_.now());
  EXPECT_FALSE(moved->replaced.has_value());
  EXPECT_THAT(tree_.Find(a_, "f"), IsError(ErrorCode::kNotFound));
  EXPECT_EQ(tree_.Find(b_, "h")->inode, f_);
  EXPECT_EQ(tree_.Get(a_)->mtime_ns, tree_.now());
  EXPECT_EQ(tree_.Get(b_)->mtime_ns, tree_.now());
  EXPECT_EQ(tree_.TotalsOf(b_).bytes, 10U);
  EXPECT_EQ(tree_.TotalsOf(a_).bytes, 0U);
}

TEST_F(RenameTest, ADirectoryCarriesItsTotalsAndLinkCounts) {
  const InodeId x = tree_.Create(s_, "x");
  ASSERT_THAT(tree_.Publish(x, Generation(0), Generation(1), 10), IsOk());
  ASSERT_THAT(tree_.Rename(a_, "s", b_, "t"), IsOk());
  EXPECT_EQ(tree_.Get(a_)->nlink, 2U);
  EXPECT_EQ(tree_.Get(b_)->nlink, 3U);
  EXPECT_EQ(tree_.Get(s_)->parent, b_);
  EXPECT_EQ(tree_.TotalsOf(b_).bytes, 10U);
  EXPECT_EQ(tree_.TotalsOf(b_).directories, 1U);
  EXPECT_EQ(tree_.TotalsOf(a_).directories, 0U);
}

TEST_F(RenameTest, AFileReplacesAFileWhichIsRemembered) {
  const auto moved = tree_.Rename(a_, "f", b_, "g");
  ASSERT_THAT(moved, IsOk());
  ASSERT_TRUE(moved->replaced.has_value());
  EXPECT_EQ(moved->replaced->inode, g_);
  EXPECT_EQ(moved->replaced->nlink, 0U);
  EXPECT_EQ(tree_.Find(b_, "g")->inode, f_);
  EXPECT_TRUE(FindTomb(tree_.rows(), g_)->has_value());
}

TEST_F(RenameTest, AReplacedFileWithAnotherNameLivesOn) {
  ASSERT_THAT(tree_.Link(g_, a_, "g2"), IsOk());
  const auto moved = tree_.Rename(a_, "f", b_, "g");
  ASSERT_THAT(moved, IsOk());
  EXPECT_EQ(moved->replaced->nlink, 1U);
  EXPECT_EQ(moved->replaced->parent, a_);
  EXPECT_EQ(moved->replaced->ctime_ns, tree_.now());
  EXPECT_EQ(tree_.Find(a_, "g2")->inode, g_);
}

TEST_F(RenameTest, ADirectoryReplacesAnEmptyDirectoryOnly) {
  const InodeId t = tree_.MakeDirectory(b_, "t");
  ASSERT_THAT(tree_.Rename(a_, "s", b_, "t"), IsOk());
  EXPECT_EQ(tree_.Find(b_, "t")->inode, s_);
  EXPECT_TRUE(FindTomb(tree_.rows(), t)->has_value());
  EXPECT_EQ(tree_.Get(b_)->nlink, 3U);
  tree_.MakeDirectory(a_, "u");
  tree_.Create(s_, "x");
  EXPECT_THAT(tree_.Rename(a_, "u", b_, "t"), IsError(ErrorCode::kNotEmpty));
}

TEST_F(RenameTest, FilesAndDirectoriesDoNotReplaceEachOther) {
  EXPECT_THAT(tree_.Rename(a_, "s", b_, "g"), IsError(ErrorCode::kNotDirectory));
  EXPECT_THAT(tree_.Rename(b_, "g", a_, "s"), IsError(ErrorCode::kIsDirectory));
}

TEST_F(RenameTest, TwoNamesOfOneFileStayAsTheyAre) {
  ASSERT_THAT(tree_.Link(f_, b_, "f2"), IsOk());
  const auto before = tree_.rows().rows();
  const auto moved = tree_.Rename(a_, "f", b_, "f2");
  ASSERT_THAT(moved, IsOk());
  EXPECT_FALSE(moved->replaced.has_value());
  EXPECT_EQ(tree_.rows().rows(), before);
  ASSERT_THAT(tree_.Rename(a_, "f", a_, "f"), IsOk());
  EXPECT_EQ(tree_.rows().rows(), before);
}

TEST_F(RenameTest, ASecondNameMovesWithoutThePrimaryOne) {
  ASSERT_THAT(tree_.Link(f_, b_, "f2"), IsOk());
  const auto moved = tree_.Rename(b_, "f2", b_, "f3");
  ASSERT_THAT(moved, IsOk());
  EXPECT_EQ(moved->attributes.parent, a_);
  EXPECT_EQ(moved->attributes.nlink, 2U);
}

TEST_F(RenameTest, NoDirectoryComesToBeInsideItself) {
  const InodeId deep = tree_.MakeDirectory(s_, "deep");
  EXPECT_THAT(tree_.Rename(kRootInode, "a", deep, "x"), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(tree_.Rename(kRootInode, "a", a_, "x"), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(tree_.Rename(s_, "deep", kRootInode, "a"), IsError(ErrorCode::kNotEmpty));
  EXPECT_THAT(tree_.Rename(kRootInode, "a", s_, "deep", kRenameExchange),
              IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(tree_.Rename(s_, "deep", kRootInode, "a", kRenameExchange),
              IsError(ErrorCode::kInvalidArgument));
}

TEST_F(RenameTest, NoReplaceRefusesATakenName) {
  EXPECT_THAT(tree_.Rename(a_, "f", b_, "g", kRenameNoReplace), IsError(ErrorCode::kExists));
  EXPECT_THAT(tree_.Rename(a_, "f", b_, "h", kRenameNoReplace), IsOk());
}

TEST_F(RenameTest, ExchangeSwapsAnythingThatExists) {
  const auto swapped = tree_.Rename(a_, "s", b_, "g", kRenameExchange);
  ASSERT_THAT(swapped, IsOk());
  EXPECT_EQ(tree_.Find(a_, "s")->inode, g_);
  EXPECT_EQ(tree_.Find(b_, "g")->inode, s_);
  EXPECT_EQ(swapped->attributes.inode, s_);
  EXPECT_EQ(swapped->replaced->inode, g_);
  EXPECT_EQ(swapped->replaced->nlink, 1U);
  EXPECT_EQ(tree_.Get(a_)->nlink, 2U);
  EXPECT_EQ(tree_.Get(b_)->nlink, 3U);
  EXPECT_THAT(tree_.Rename(a_, "f", b_, "none", kRenameExchange), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(tree_.Rename(a_, "f", a_, "s", kRenameExchange), IsOk());
  EXPECT_EQ(tree_.Find(a_, "f")->inode, g_);
  EXPECT_EQ(tree_.Find(a_, "s")->inode, f_);
}

TEST_F(RenameTest, FlagsThatDoNotGoTogetherAreRefused) {
  EXPECT_THAT(tree_.Rename(a_, "f", b_, "h", kRenameNoReplace | kRenameExchange),
              IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(tree_.Rename(a_, "f", b_, "h", 4), IsError(ErrorCode::kInvalidArgument));
}

TEST_F(RenameTest, MissingEndsAreTold) {
  EXPECT_THAT(tree_.Rename(a_, "none", b_, "h"), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(tree_.Rename(a_, "f", InodeId(4711), "h"), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(tree_.Rename(a_, "f", g_, "h"), IsError(ErrorCode::kNotDirectory));
  EXPECT_THAT(tree_.Rename(a_, "f", b_, std::string(256, 'x')), IsError(ErrorCode::kNameTooLong));
}

TEST_F(RenameTest, ADirectoryThatChangesItsParentIsWrittenTo) {
  ASSERT_THAT(tree_.SetMode(a_, 0777), IsOk());
  ASSERT_THAT(tree_.SetMode(b_, 0777), IsOk());
  tree_.as = User(1000);
  EXPECT_THAT(tree_.Rename(a_, "s", b_, "s"), IsError(ErrorCode::kAccess));
  EXPECT_THAT(tree_.Rename(a_, "s", a_, "s2"), IsOk());
  EXPECT_THAT(tree_.Rename(a_, "f", b_, "f"), IsOk());
}

}  // namespace
}  // namespace quadfs::metadata
