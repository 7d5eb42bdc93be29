// The tables of a mount, without a mount.
#include <cerrno>

#include "fs/errno_map.h"
#include "fs/node/file_table.h"
#include "fs/node/inode_table.h"
#include "fs/node/lock_owners.h"
#include "tests/support/matchers.h"

namespace quadfs::fs {
namespace {

TEST(ErrnoMapTest, EveryCodeIsAnErrno) {
  for (uint32_t number = 1; number <= 29; ++number) {
    EXPECT_GT(ErrnoOf(ErrorCodeFromNumber(number)), 0) << number;
  }
  EXPECT_EQ(ErrnoOf(ErrorCode::kUnavailable), EIO);
  EXPECT_EQ(ErrnoOf(ErrorCode::kNoAttribute), ENODATA);
}

TEST(InodeTableTest, ForgetTakesBackWhatWasRemembered) {
  InodeTable table;
  EXPECT_TRUE(table.Known(kRootInode.value));
  EXPECT_EQ(table.Remember(InodeId(7)), 7U);
  EXPECT_EQ(table.Remember(InodeId(7)), 7U);
  table.Forget(7, 1);
  EXPECT_TRUE(table.Known(7));
  table.Forget(7, 1);
  EXPECT_FALSE(table.Known(7));
  EXPECT_EQ(table.size(), 0U);
}

// A superseded inode gets another nodeid, with the same InodeId, until the kernel forgot them all.
TEST(InodeTableTest, IncarnationsComeAndGo) {
  InodeTable table;
  ASSERT_EQ(table.Remember(InodeId(7)), 7U);
  table.Supersede(7);
  table.Supersede(7);  // Once is enough.
  EXPECT_TRUE(table.superseded(7));
  const uint64_t second = table.Remember(InodeId(7));
  EXPECT_NE(second, 7U);
  EXPECT_EQ(table.InodeOf(second), InodeId(7));
  EXPECT_FALSE(table.superseded(second));
  table.Forget(7, 1);
  EXPECT_EQ(table.Current(InodeId(7)), second);
  table.Forget(second, 1);
  EXPECT_EQ(table.Current(InodeId(7)), 7U);
}

// The inode of a conflict copy has its top bit set and is no incarnation.
TEST(InodeTableTest, ConflictInodesAreInodes) {
  InodeTable table;
  const InodeId conflict((uint64_t{0x8002} << 48) | 5);
  EXPECT_EQ(table.Remember(conflict), conflict.value);
  EXPECT_EQ(table.InodeOf(conflict.value), conflict);
}

TEST(FileTableTest, FileLivesAsLongAsItsRefs) {
  FileTable table;
  FileTable::Ref first = table.Acquire(7, InodeId(7));
  FileTable::Ref second = table.Find(7);
  EXPECT_EQ(&*first, &*second);
  first.Reset();
  EXPECT_EQ(table.size(), 1U);
  second = FileTable::Ref();
  EXPECT_EQ(table.size(), 0U);
  EXPECT_FALSE(table.Find(7));
}

TEST(LockOwnersTest, FlushTakesTheOwnerReleaseTheRest) {
  LockOwners owners;
  owners.Add(InodeId(7), /*owner=*/1, /*handle=*/10);
  owners.Add(InodeId(7), /*owner=*/2, /*handle=*/10);
  EXPECT_TRUE(owners.TakeOwner(InodeId(7), 1));
  EXPECT_FALSE(owners.TakeOwner(InodeId(7), 1));
  EXPECT_EQ(owners.TakeHandle(InodeId(7), 10), (std::vector<uint64_t>{2}));
  EXPECT_TRUE(owners.TakeHandle(InodeId(7), 10).empty());
}

}  // namespace
}  // namespace quadfs::fs
