#include "metadata/tree_rows.h"
#include "tests/support/matchers.h"
#include "tests/support/metadata_tree.h"

namespace quadfs::metadata {
namespace {

using test::IsError;
using test::IsOk;
using test::TestTree;
using test::User;

TEST(RemoveTest, TheLastNameLeavesATombThatRemembersTheFile) {
  TestTree tree;
  const InodeId f = tree.Create(kRootInode, "f");
  ASSERT_THAT(tree.Publish(f, Generation(0), Generation(1), 5), IsOk());
  const auto removed = tree.Unlink(kRootInode, "f");
  ASSERT_THAT(removed, IsOk());
  EXPECT_EQ(removed->attributes.inode, f);
  EXPECT_EQ(removed->attributes.nlink, 0U);
  EXPECT_THAT(tree.Find(kRootInode, "f"), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(tree.Get(f), IsError(ErrorCode::kNotFound));
  const auto tomb = FindTomb(tree.rows(), f).value();
  ASSERT_TRUE(tomb.has_value());
  EXPECT_EQ(tomb->attributes, removed->attributes);
  EXPECT_EQ(tomb->parent, kRootInode);
  EXPECT_EQ(tomb->name, "f");
  EXPECT_EQ(tomb->removed_ns, tree.now());
  EXPECT_EQ(tree.Locations(f).size(), 1U) << "readers elsewhere still find its bytes";
  EXPECT_EQ(tree.TotalsOf(kRootInode), Totals());
}

TEST(RemoveTest, WhenThePrimaryNameGoesAnotherBecomesPrimaryAndTotalsMove) {
  TestTree tree;
  const InodeId a = tree.MakeDirectory(kRootInode, "a");
  const InodeId b = tree.MakeDirectory(kRootInode, "b");
  const InodeId f = tree.Create(a, "f");
  ASSERT_THAT(tree.Publish(f, Generation(0), Generation(1), 100), IsOk());
  ASSERT_THAT(tree.Link(f, b, "g"), IsOk());
  EXPECT_EQ(tree.TotalsOf(a).bytes, 100U);
  EXPECT_EQ(tree.TotalsOf(b).bytes, 0U);
  const auto removed = tree.Unlink(a, "f");
  ASSERT_THAT(removed, IsOk());
  EXPECT_EQ(removed->attributes.nlink, 1U);
  EXPECT_EQ(removed->attributes.parent, b);
  EXPECT_EQ(removed->attributes.ctime_ns, tree.now());
  EXPECT_EQ(tree.TotalsOf(a), Totals());
  EXPECT_EQ(tree.TotalsOf(b).bytes, 100U);
  EXPECT_EQ(tree.TotalsOf(b).campus_bytes.at(kMainCampus), 100U);
}

TEST(RemoveTest, ASecondNameGoesWithoutMovingThePrimaryOne) {
  TestTree tree;
  const InodeId d = tree.MakeDirectory(kRootInode, "d");
  const InodeId f = tree.Create(kRootInode, "f");
  ASSERT_THAT(tree.Link(f, d, "g"), IsOk());
  ASSERT_THAT(tree.Unlink(d, "g"), IsOk());
  EXPECT_EQ(tree.Get(f)->parent, kRootInode);
  EXPECT_EQ(tree.Get(f)->nlink, 1U);
}

TEST(RemoveTest, UnlinkAndRmdirRefuseEachOthersKind) {
  TestTree tree;
  tree.MakeDirectory(kRootInode, "d");
  tree.Create(kRootInode, "f");
  EXPECT_THAT(tree.Unlink(kRootInode, "d"), IsError(ErrorCode::kIsDirectory));
  EXPECT_THAT(tree.Rmdir(kRootInode, "f"), IsError(ErrorCode::kNotDirectory));
  EXPECT_THAT(tree.Unlink(kRootInode, "x"), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(tree.Rmdir(kRootInode, "x"), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(tree.Rmdir(kRootInode, "."), IsError(ErrorCode::kInvalidArgument));
}

TEST(RemoveTest, OnlyEmptyDirectoriesGo) {
  TestTree tree;
  const InodeId d = tree.MakeDirectory(kRootInode, "d");
  tree.Create(d, "f");
  EXPECT_THAT(tree.Rmdir(kRootInode, "d"), IsError(ErrorCode::kNotEmpty));
  ASSERT_THAT(tree.Unlink(d, "f"), IsOk());
  ASSERT_THAT(tree.Rmdir(kRootInode, "d"), IsOk());
  EXPECT_EQ(tree.Get(kRootInode)->nlink, 2U);
  EXPECT_EQ(tree.Get(kRootInode)->mtime_ns, tree.now());
}

TEST(RemoveTest, TakingANameAwayNeedsWritePermissionOnTheDirectory) {
  TestTree tree;
  tree.Create(kRootInode, "f", 0777);
  tree.as = User(1000);
  EXPECT_THAT(tree.Unlink(kRootInode, "f"), IsError(ErrorCode::kAccess));
}

TEST(RemoveTest, InAStickyDirectoryOnlyOwnersRemove) {
  TestTree tree;
  ASSERT_THAT(tree.SetMode(kRootInode, 01777), IsOk());
  tree.as = User(1000);
  tree.Create(kRootInode, "f");
  tree.MakeDirectory(kRootInode, "d");
  tree.as = User(1001);
  EXPECT_THAT(tree.Unlink(kRootInode, "f"), IsError(ErrorCode::kPermission));
  EXPECT_THAT(tree.Rmdir(kRootInode, "d"), IsError(ErrorCode::kPermission));
  EXPECT_THAT(tree.Rename(kRootInode, "f", kRootInode, "g"), IsError(ErrorCode::kPermission));
  tree.Create(kRootInode, "mine");
  EXPECT_THAT(tree.Rename(kRootInode, "mine", kRootInode, "f"), IsError(ErrorCode::kPermission));
  tree.as = User(1000);
  EXPECT_THAT(tree.Unlink(kRootInode, "f"), IsOk());
  tree.as = Credentials();
  EXPECT_THAT(tree.Rmdir(kRootInode, "d"), IsOk());
}

}  // namespace
}  // namespace quadfs::metadata
