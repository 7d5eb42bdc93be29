#include "tests/support/matchers.h"
#include "tests/support/metadata_tree.h"

namespace quadfs::metadata {
namespace {

using test::IsOk;
using test::TestTree;
using testing::ElementsAre;

// a and b in the root; f in a, with a second name in b; d in a.
class NeedsTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_THAT(tree_.Link(f_, b_, "g"), IsOk()); }
  LeaseNeeds Of(OpKind kind, InodeId parent, const std::string& name, InodeId inode = InodeId()) {
    Operation op;
    op.kind = kind;
    op.parent = parent;
    op.name = name;
    op.inode = inode;
    return NeedsOf(tree_.rows(), op).value();
  }
  LeaseNeeds OfRename(InodeId parent, const std::string& name, InodeId new_parent,
                      const std::string& new_name, uint32_t flags = 0) {
    Operation op;
    op.kind = OpKind::kRename;
    op.parent = parent;
    op.name = name;
    op.new_parent = new_parent;
    op.new_name = new_name;
    op.rename_flags = flags;
    return NeedsOf(tree_.rows(), op).value();
  }
  TestTree tree_;
  InodeId a_ = tree_.MakeDirectory(kRootInode, "a");
  InodeId b_ = tree_.MakeDirectory(kRootInode, "b");
  InodeId f_ = tree_.Create(a_, "f");
  InodeId d_ = tree_.MakeDirectory(a_, "d");
};

TEST_F(NeedsTest, CreateNeedsTheParent) {
  EXPECT_THAT(Of(OpKind::kCreate, a_, "x").directories, ElementsAre(a_));
}

TEST_F(NeedsTest, AFilesRowNeedsItsPrimaryParentADirectorysItself) {
  for (const OpKind kind : {OpKind::kPublish, OpKind::kSetAttributes, OpKind::kSetXattr}) {
    EXPECT_THAT(Of(kind, InodeId(), "", f_).directories, ElementsAre(a_));
    EXPECT_THAT(Of(kind, InodeId(), "", d_).directories, ElementsAre(d_));
  }
}

TEST_F(NeedsTest, UnlinkOfThePrimaryNameNeedsTheNextOnesParent) {
  EXPECT_THAT(Of(OpKind::kUnlink, a_, "f").directories, ElementsAre(a_, b_));
  EXPECT_THAT(Of(OpKind::kUnlink, b_, "g").directories, ElementsAre(a_, b_));
  EXPECT_THAT(Of(OpKind::kUnlink, b_, "none").directories, ElementsAre(b_));
}

TEST_F(NeedsTest, RmdirAndLinkNeedBothSides) {
  EXPECT_THAT(Of(OpKind::kRmdir, a_, "d").directories, ElementsAre(a_, d_));
  EXPECT_THAT(Of(OpKind::kLink, b_, "x", f_).directories, ElementsAre(a_, b_));
}

TEST_F(NeedsTest, OnlyADirectoryThatChangesItsParentGoesToMain) {
  EXPECT_FALSE(OfRename(a_, "f", b_, "x").at_main);
  EXPECT_FALSE(OfRename(a_, "d", a_, "x").at_main);
  EXPECT_TRUE(OfRename(a_, "d", b_, "x").at_main);
  EXPECT_TRUE(OfRename(b_, "g", a_, "d", kRenameExchange).at_main);
  EXPECT_TRUE(Of(OpKind::kLocate, InodeId(), "", f_).at_main);
  EXPECT_TRUE(Of(OpKind::kMember, InodeId(), "").at_main);
}

TEST_F(NeedsTest, AReplacedDirectoryIsNeededToo) {
  const InodeId e = tree_.MakeDirectory(a_, "e");
  EXPECT_THAT(OfRename(a_, "d", a_, "e").directories, ElementsAre(a_, d_, e));
}

}  // namespace
}  // namespace quadfs::metadata
