#include "metadata/view.h"
#include "tests/support/matchers.h"
#include "tests/support/metadata_tree.h"

namespace quadfs::metadata {
namespace {

using test::IsError;
using test::IsOk;
using test::TestTree;
using test::User;

// A file of user 1000, group 100, mode 06777.
class SetAttributesTest : public testing::Test {
 protected:
  SetAttributesTest() {
    Attributes row = tree_.Get(f_).value();
    row.uid = 1000;
    row.gid = 100;
    tree_.Overwrite(row);
  }
  Result<OpResult> Set(uint32_t mask, uint32_t uid, uint32_t gid, uint32_t mode = 0) {
    Operation op;
    op.kind = OpKind::kSetAttributes;
    op.inode = f_;
    op.set_mask = mask;
    op.uid = uid;
    op.gid = gid;
    op.mode = mode;
    op.atime_ns = 5;
    op.mtime_ns = 6;
    return tree_.Run(op);
  }
  TestTree tree_;
  InodeId f_ = tree_.Create(kRootInode, "f", 06777);
};

TEST_F(SetAttributesTest, OnlyTheOwnerOrRootChangesTheMode) {
  tree_.as = User(1001);
  EXPECT_THAT(tree_.SetMode(f_, 0600), IsError(ErrorCode::kPermission));
  tree_.as = User(1000);
  ASSERT_THAT(tree_.SetMode(f_, 04600), IsOk());
  EXPECT_EQ(tree_.Get(f_)->mode, 04600U);
  EXPECT_EQ(tree_.Get(f_)->ctime_ns, tree_.now());
}

TEST_F(SetAttributesTest, SetGidIsClearedForAnOwnerOutsideTheGroup) {
  tree_.as = User(1000, 7);
  ASSERT_THAT(tree_.SetMode(f_, 02755), IsOk());
  EXPECT_EQ(tree_.Get(f_)->mode, 0755U);
  tree_.as.groups = {100};
  ASSERT_THAT(tree_.SetMode(f_, 02755), IsOk());
  EXPECT_EQ(tree_.Get(f_)->mode, 02755U);
}

TEST_F(SetAttributesTest, OnlyRootGivesFilesAway) {
  tree_.as = User(1000);
  EXPECT_THAT(Set(kSetUid, 1001, 0), IsError(ErrorCode::kPermission));
  EXPECT_THAT(Set(kSetUid, 1000, 0), IsOk());
  tree_.as = Credentials();
  ASSERT_THAT(Set(kSetUid | kSetGid, 1001, 101), IsOk());
  EXPECT_EQ(tree_.Get(f_)->uid, 1001U);
  EXPECT_EQ(tree_.Get(f_)->gid, 101U);
}

TEST_F(SetAttributesTest, AnOwnerChangesTheGroupToOneOfHis) {
  tree_.as = User(1000);
  EXPECT_THAT(Set(kSetGid, 0, 101), IsError(ErrorCode::kPermission));
  tree_.as.groups = {101};
  EXPECT_THAT(Set(kSetGid, 0, 101), IsOk());
  tree_.as = User(1001, 101);
  EXPECT_THAT(Set(kSetGid, 0, 101), IsError(ErrorCode::kPermission));
}

TEST_F(SetAttributesTest, AChangeOfOwnerClearsSetIdBitsAndTheCapability) {
  ASSERT_THAT(tree_.SetXattr(f_, "security.capability", "caps"), IsOk());
  ASSERT_TRUE(tree_.Get(f_)->has_xattr);
  ASSERT_THAT(Set(kSetUid, 1001, 0), IsOk());
  EXPECT_EQ(tree_.Get(f_)->mode, 0777U);
  EXPECT_EQ(tree_.Xattr(f_, "security.capability"), "(none)");
  EXPECT_FALSE(tree_.Get(f_)->has_xattr);
}

TEST_F(SetAttributesTest, ADirectoryKeepsItsSetGidBitWhenItsOwnerChanges) {
  const InodeId d = tree_.MakeDirectory(kRootInode, "d", 02755);
  Operation op;
  op.kind = OpKind::kSetAttributes;
  op.inode = d;
  op.set_mask = kSetUid;
  op.uid = 1000;
  ASSERT_THAT(tree_.Run(op), IsOk());
  EXPECT_EQ(tree_.Get(d)->mode, 02755U);
}

TEST_F(SetAttributesTest, TimesAreChosenByTheOwnerAndTouchedByWriters) {
  tree_.as = User(1001);
  EXPECT_THAT(Set(kSetAtime | kSetMtime, 0, 0), IsError(ErrorCode::kPermission));
  ASSERT_THAT(Set(kSetAtime | kSetMtime | kSetTimesToNow, 0, 0), IsOk());
  EXPECT_EQ(tree_.Get(f_)->mtime_ns, tree_.now());
  tree_.as = User(1000);
  ASSERT_THAT(Set(kSetAtime | kSetMtime, 0, 0), IsOk());
  EXPECT_EQ(tree_.Get(f_)->atime_ns, 5);
  EXPECT_EQ(tree_.Get(f_)->mtime_ns, 6);
  EXPECT_EQ(tree_.Get(f_)->ctime_ns, tree_.now());
  ASSERT_THAT(tree_.SetMode(f_, 0600), IsOk());
  tree_.as = User(1001);
  EXPECT_THAT(Set(kSetMtime | kSetTimesToNow, 0, 0), IsError(ErrorCode::kAccess));
}

TEST_F(SetAttributesTest, ASymlinkHasNoModeAndUnknownBitsAreRefused) {
  const InodeId link = tree_.TryCreate(kRootInode, "l", FileType::kSymlink)->attributes.inode;
  EXPECT_THAT(tree_.SetMode(link, 0600), IsError(ErrorCode::kNotSupported));
  EXPECT_THAT(Set(1U << 20, 0, 0), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(tree_.SetMode(InodeId(4711), 0600), IsError(ErrorCode::kNotFound));
}

TEST_F(SetAttributesTest, NothingToSetChangesNothing) {
  const auto before = tree_.rows().rows();
  EXPECT_THAT(Set(0, 0, 0), IsOk());
  EXPECT_EQ(tree_.rows().rows(), before);
}

TEST(MayAccessTest, TheFirstClassThatFitsDecides) {
  Attributes file;
  file.uid = 1000;
  file.gid = 100;
  file.mode = 0074;
  EXPECT_FALSE(MayAccess(file, User(1000, 100), 4)) << "the owner's bits count, not the group's";
  EXPECT_TRUE(MayAccess(file, User(1001, 100), 7));
  EXPECT_TRUE(MayAccess(file, Credentials{1001, 7, {100}}, 7)) << "a supplementary group";
  EXPECT_TRUE(MayAccess(file, User(1001, 7), 4));
  EXPECT_FALSE(MayAccess(file, User(1001, 7), 6));
  file.mode = 0600;
  EXPECT_TRUE(MayAccess(file, Credentials(), 6));
  EXPECT_FALSE(MayAccess(file, Credentials(), 1)) << "root runs what somebody may run";
  file.type = FileType::kDirectory;
  EXPECT_TRUE(MayAccess(file, Credentials(), 7));
}

}  // namespace
}  // namespace quadfs::metadata
