#include "tests/support/matchers.h"
#include "tests/support/metadata_tree.h"

namespace quadfs::metadata {
namespace {

using test::IsError;
using test::IsOk;
using test::TestTree;
using test::User;

TEST(XattrTest, AValueIsKeptWithTheFlagAndCtime) {
  TestTree tree;
  const InodeId f = tree.Create(kRootInode, "f");
  const std::string value("\0binary\xff", 8);
  ASSERT_THAT(tree.SetXattr(f, "user.a", value), IsOk());
  EXPECT_EQ(tree.Xattr(f, "user.a"), value);
  EXPECT_TRUE(tree.Get(f)->has_xattr);
  EXPECT_EQ(tree.Get(f)->ctime_ns, tree.now());
  ASSERT_THAT(tree.SetXattr(f, "user.b", ""), IsOk());
  ASSERT_THAT(tree.RemoveXattr(f, "user.a"), IsOk());
  EXPECT_TRUE(tree.Get(f)->has_xattr);
  EXPECT_EQ(tree.Xattr(f, "user.b"), "");
  ASSERT_THAT(tree.RemoveXattr(f, "user.b"), IsOk());
  EXPECT_FALSE(tree.Get(f)->has_xattr);
  EXPECT_THAT(tree.RemoveXattr(f, "user.b"), IsError(ErrorCode::kNoAttribute));
}

TEST(XattrTest, CreateAndReplaceMeanWhatTheySay) {
  TestTree tree;
  const InodeId f = tree.Create(kRootInode, "f");
  EXPECT_THAT(tree.SetXattr(f, "user.a", "1", kXattrReplace), IsError(ErrorCode::kNoAttribute));
  EXPECT_THAT(tree.SetXattr(f, "user.a", "1", kXattrCreate), IsOk());
  EXPECT_THAT(tree.SetXattr(f, "user.a", "2", kXattrCreate), IsError(ErrorCode::kExists));
  EXPECT_THAT(tree.SetXattr(f, "user.a", "3", kXattrReplace), IsOk());
  EXPECT_THAT(tree.SetXattr(f, "user.a", "4", 4), IsError(ErrorCode::kInvalidArgument));
  EXPECT_EQ(tree.Xattr(f, "user.a"), "3");
}

TEST(XattrTest, NamesAndValuesAreBounded) {
  TestTree tree;
  const InodeId f = tree.Create(kRootInode, "f");
  EXPECT_THAT(tree.SetXattr(f, "user.big", std::string(65536, 'x')), IsOk());
  EXPECT_THAT(tree.SetXattr(f, "user.big", std::string(65537, 'x')), IsError(ErrorCode::kTooLarge));
  EXPECT_THAT(tree.SetXattr(f, "user." + std::string(250, 'x'), "1"), IsOk());
  EXPECT_THAT(tree.SetXattr(f, "user." + std::string(251, 'x'), "1"), IsError(ErrorCode::kRange));
  EXPECT_THAT(tree.SetXattr(f, "user.", "1"), IsError(ErrorCode::kInvalidArgument));
  Result<OpResult> last = OpResult();
  size_t count = 0;
  while (last.ok() && count < 1000) {
    const std::string number = std::to_string(count++);
    last = tree.SetXattr(f, "user." + std::string(240, 'x') + number, "");
  }
  EXPECT_THAT(last, IsError(ErrorCode::kNoSpace)) << "what listxattr can return is bounded";
}

TEST(XattrTest, TheNamespaceSaysWhoMaySet) {
  TestTree tree;
  const InodeId f = tree.Create(kRootInode, "f", 0666);
  tree.as = User(1000);
  EXPECT_THAT(tree.SetXattr(f, "user.a", "1"), IsOk());
  EXPECT_THAT(tree.SetXattr(f, "trusted.a", "1"), IsError(ErrorCode::kPermission));
  EXPECT_THAT(tree.SetXattr(f, "security.a", "1"), IsError(ErrorCode::kPermission));
  tree.as = Credentials();
  EXPECT_THAT(tree.SetXattr(f, "trusted.a", "1"), IsOk());
  EXPECT_THAT(tree.SetXattr(f, "security.a", "1"), IsOk());
  EXPECT_THAT(tree.SetXattr(f, "system.posix_acl_access", "1"), IsError(ErrorCode::kNotSupported));
  EXPECT_THAT(tree.SetXattr(f, "other.a", "1"), IsError(ErrorCode::kNotSupported));
  tree.as = User(1000);
  EXPECT_THAT(tree.RemoveXattr(f, "trusted.a"), IsError(ErrorCode::kPermission));
}

TEST(XattrTest, UserAttributesNeedWritePermissionAndAPlainFileOrDirectory) {
  TestTree tree;
  const InodeId f = tree.Create(kRootInode, "f", 0644);
  const InodeId pipe = tree.TryCreate(kRootInode, "p", FileType::kFifo)->attributes.inode;
  const InodeId sticky = tree.MakeDirectory(kRootInode, "tmp", 01777);
  const InodeId open = tree.MakeDirectory(kRootInode, "open", 0777);
  EXPECT_THAT(tree.SetXattr(pipe, "user.a", "1"), IsError(ErrorCode::kPermission));
  EXPECT_THAT(tree.SetXattr(pipe, "trusted.a", "1"), IsOk());
  tree.as = User(1000);
  EXPECT_THAT(tree.SetXattr(f, "user.a", "1"), IsError(ErrorCode::kAccess));
  EXPECT_THAT(tree.SetXattr(sticky, "user.a", "1"), IsError(ErrorCode::kPermission));
  EXPECT_THAT(tree.SetXattr(open, "user.a", "1"), IsOk());
}

}  // namespace
}  // namespace quadfs::metadata
