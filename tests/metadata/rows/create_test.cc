#include "metadata/tree_rows.h"
#include "tests/support/matchers.h"
#include "tests/support/metadata_tree.h"

namespace quadfs::metadata {
namespace {

using test::IsError;
using test::IsOk;
using test::TestTree;
using test::User;

TEST(CreateTest, ANewFileHasItsCallersIdsAndOneName) {
  TestTree tree;
  ASSERT_THAT(tree.SetMode(kRootInode, 0777), IsOk());
  tree.as = User(1000, 100);
  const auto made = tree.TryCreate(kRootInode, "f", FileType::kRegular, 06751);
  ASSERT_THAT(made, IsOk());
  const Attributes file = tree.Find(kRootInode, "f").value();
  EXPECT_EQ(file, made->attributes);
  EXPECT_EQ(file.uid, 1000U);
  EXPECT_EQ(file.gid, 100U);
  EXPECT_EQ(file.mode, 06751U);
  EXPECT_EQ(file.nlink, 1U);
  EXPECT_EQ(file.parent, kRootInode);
  EXPECT_EQ(file.generation, Generation());
  for (const int64_t time : {file.atime_ns, file.mtime_ns, file.ctime_ns, file.birth_ns}) {
    EXPECT_EQ(time, tree.now());
  }
}

TEST(CreateTest, TheParentsTimesMoveAndSubdirectoriesCount) {
  TestTree tree;
  tree.Create(kRootInode, "f");
  EXPECT_EQ(tree.Get(kRootInode)->nlink, 2U);
  EXPECT_EQ(tree.Get(kRootInode)->mtime_ns, tree.now());
  const InodeId d = tree.MakeDirectory(kRootInode, "d");
  EXPECT_EQ(tree.Get(kRootInode)->nlink, 3U);
  EXPECT_EQ(tree.Get(kRootInode)->ctime_ns, tree.now());
  EXPECT_EQ(tree.Get(d)->nlink, 2U);
}

TEST(CreateTest, ATakenNameIsRefusedBeforeTheModeIsAsked) {
  TestTree tree;
  tree.Create(kRootInode, "f");
  tree.as = User(1000);
  EXPECT_THAT(tree.TryCreate(kRootInode, "f"), IsError(ErrorCode::kExists));
  EXPECT_THAT(tree.TryCreate(kRootInode, "g"), IsError(ErrorCode::kAccess));
}

TEST(CreateTest, WithoutSearchPermissionNotEvenExistenceIsTold) {
  TestTree tree;
  const InodeId d = tree.MakeDirectory(kRootInode, "d", 0700);
  tree.Create(d, "f");
  tree.as = User(1000);
  EXPECT_THAT(tree.TryCreate(d, "f"), IsError(ErrorCode::kAccess));
}

TEST(CreateTest, ARemovedOrMissingOrWrongParentIsTold) {
  TestTree tree;
  const InodeId d = tree.MakeDirectory(kRootInode, "d");
  const InodeId f = tree.Create(kRootInode, "f");
  ASSERT_THAT(tree.Rmdir(kRootInode, "d"), IsOk());
  EXPECT_THAT(tree.TryCreate(d, "x"), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(tree.TryCreate(InodeId(4711), "x"), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(tree.TryCreate(f, "x"), IsError(ErrorCode::kNotDirectory));
}

TEST(CreateTest, NamesHaveOneTo255BytesOfAnythingButSlashAndNul) {
  TestTree tree;
  std::string every;
  for (int byte = 1; byte < 256; ++byte) {
    if (byte != '/') every.push_back(static_cast<char>(byte));
  }
  EXPECT_THAT(tree.TryCreate(kRootInode, every), IsOk());
  EXPECT_THAT(tree.TryCreate(kRootInode, std::string(255, 'x')), IsOk());
  EXPECT_THAT(tree.Find(kRootInode, every), IsOk());
  EXPECT_THAT(tree.TryCreate(kRootInode, std::string(256, 'x')), IsError(ErrorCode::kNameTooLong));
  for (const std::string& name : {std::string(), std::string("."), std::string(".."),
                                  std::string("a/b"), std::string("a\0b", 3)}) {
    EXPECT_THAT(tree.TryCreate(kRootInode, name), IsError(ErrorCode::kInvalidArgument)) << name;
  }
}

TEST(CreateTest, TheRootKeepsItsReservedName) {
  TestTree tree;
  EXPECT_THAT(tree.TryCreate(kRootInode, ".quadfs"), IsError(ErrorCode::kPermission));
  const InodeId d = tree.MakeDirectory(kRootInode, "d");
  EXPECT_THAT(tree.TryCreate(d, ".quadfs"), IsOk());
  const InodeId f = tree.Create(kRootInode, "f");
  EXPECT_THAT(tree.Link(f, kRootInode, ".quadfs"), IsError(ErrorCode::kPermission));
  EXPECT_THAT(tree.Rename(kRootInode, "f", kRootInode, ".quadfs"), IsError(ErrorCode::kPermission));
}

TEST(CreateTest, ASetGidDirectoryGivesItsGroupAndDirectoriesInheritTheBit) {
  TestTree tree;
  const InodeId d = tree.MakeDirectory(kRootInode, "d", 02777);
  Attributes row = tree.Get(d).value();
  row.gid = 55;
  tree.Overwrite(row);
  tree.as = User(1000, 100);
  const Attributes file = tree.TryCreate(d, "f", FileType::kRegular, 02755)->attributes;
  EXPECT_EQ(file.gid, 55U);
  EXPECT_EQ(file.mode, 0755U) << "not in the group: the file may not run as it";
  const Attributes sub = tree.TryCreate(d, "s", FileType::kDirectory, 0755)->attributes;
  EXPECT_EQ(sub.gid, 55U);
  EXPECT_EQ(sub.mode, 02755U);
}

TEST(CreateTest, SymlinksKeepTheirTargetAndDevicesNeedRoot) {
  TestTree tree;
  const Attributes link = tree.TryCreate(kRootInode, "l", FileType::kSymlink)->attributes;
  EXPECT_EQ(link.symlink_target, "target");
  EXPECT_EQ(link.size, 6U);
  EXPECT_EQ(link.mode, 0777U);

  Operation op;
  op.kind = OpKind::kCreate;
  op.parent = kRootInode;
  op.inode = InodeId(9000);
  op.type = FileType::kSymlink;
  op.name = "long";
  op.symlink_target = std::string(4096, 'x');
  EXPECT_THAT(tree.Run(op), IsError(ErrorCode::kNameTooLong));
  op.symlink_target.clear();
  EXPECT_THAT(tree.Run(op), IsError(ErrorCode::kNotFound));
  op.type = FileType::kCharacterDevice;
  op.rdev = 0x103;
  ASSERT_THAT(tree.Run(op), IsOk());
  EXPECT_EQ(tree.Get(InodeId(9000))->rdev, 0x103U);

  ASSERT_THAT(tree.SetMode(kRootInode, 0777), IsOk());
  tree.as = User(1000);
  EXPECT_THAT(tree.TryCreate(kRootInode, "dev", FileType::kBlockDevice),
              IsError(ErrorCode::kPermission));
  EXPECT_THAT(tree.TryCreate(kRootInode, "pipe", FileType::kFifo), IsOk());
}

TEST(CreateTest, AnInodeNumberIsNeverUsedTwice) {
  TestTree tree;
  Operation op;
  op.kind = OpKind::kCreate;
  op.parent = kRootInode;
  op.name = "again";
  op.inode = tree.Create(kRootInode, "f");
  EXPECT_THAT(tree.Run(op), IsError(ErrorCode::kInvalidArgument));
  ASSERT_THAT(tree.Unlink(kRootInode, "f"), IsOk());
  EXPECT_THAT(tree.Run(op), IsError(ErrorCode::kInvalidArgument));
  op.inode = InodeId();
  EXPECT_THAT(tree.Run(op), IsError(ErrorCode::kInvalidArgument));
}

TEST(LinkTest, ASecondNameIsCountedAndSharesEverything) {
  TestTree tree;
  const InodeId d = tree.MakeDirectory(kRootInode, "d");
  const InodeId f = tree.Create(kRootInode, "f");
  const auto linked = tree.Link(f, d, "g");
  ASSERT_THAT(linked, IsOk());
  EXPECT_EQ(linked->attributes.nlink, 2U);
  EXPECT_EQ(linked->attributes.ctime_ns, tree.now());
  EXPECT_EQ(tree.Find(d, "g").value(), tree.Find(kRootInode, "f").value());
  EXPECT_EQ(tree.Get(d)->mtime_ns, tree.now());
  EXPECT_EQ(tree.TotalsOf(kRootInode).files, 1U);
}

TEST(LinkTest, DirectoriesTakenNamesRemovedFilesAndTooManyAreRefused) {
  TestTree tree;
  const InodeId d = tree.MakeDirectory(kRootInode, "d");
  const InodeId f = tree.Create(kRootInode, "f");
  EXPECT_THAT(tree.Link(d, kRootInode, "e"), IsError(ErrorCode::kPermission));
  EXPECT_THAT(tree.Link(f, kRootInode, "d"), IsError(ErrorCode::kExists));
  EXPECT_THAT(tree.Link(InodeId(4711), kRootInode, "x"), IsError(ErrorCode::kNotFound));
  Attributes full = tree.Get(f).value();
  full.nlink = kMaxLinks;
  tree.Overwrite(full);
  EXPECT_THAT(tree.Link(f, kRootInode, "x"), IsError(ErrorCode::kTooManyLinks));
  full.nlink = 1;
  tree.Overwrite(full);
  ASSERT_THAT(tree.Unlink(kRootInode, "f"), IsOk());
  EXPECT_THAT(tree.Link(f, kRootInode, "x"), IsError(ErrorCode::kNotFound));
}

}  // namespace
}  // namespace quadfs::metadata
