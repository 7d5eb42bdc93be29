#include "metadata/lock_table.h"

#include <thread>

#include "tests/support/matchers.h"

namespace quadfs::metadata {
namespace {

using test::IsError;
using test::IsOk;

constexpr LockOwner kFirst{CampusId(1), NodeId(1), 7};
constexpr LockOwner kSecond{CampusId(2), NodeId(2), 7};

LockRequest Range(uint64_t inode, LockType type, uint64_t first, uint64_t last) {
  LockRequest request;
  request.inode = InodeId(inode);
  request.type = type;
  request.first_byte = first;
  request.last_byte = last;
  return request;
}

TEST(LockTableTest, RangesExcludeOnlyWhereTheyOverlap) {
  LockTable table;
  EXPECT_THAT(table.Lock(kFirst, Range(5, LockType::kExclusive, 10, 19)), IsOk());
  EXPECT_THAT(table.Lock(kSecond, Range(5, LockType::kExclusive, 20, 29)), IsOk());
  EXPECT_THAT(table.Lock(kSecond, Range(5, LockType::kShared, 15, 15)),
              IsError(ErrorCode::kWouldBlock));
  EXPECT_THAT(table.Lock(kSecond, Range(6, LockType::kExclusive, 15, 15)), IsOk());
}

TEST(LockTableTest, UnlockInTheMiddleSplitsARange) {
  LockTable table;
  ASSERT_THAT(table.Lock(kFirst, Range(5, LockType::kExclusive, 0, 99)), IsOk());
  ASSERT_THAT(table.Lock(kFirst, Range(5, LockType::kUnlock, 40, 59)), IsOk());
  EXPECT_THAT(table.Lock(kSecond, Range(5, LockType::kExclusive, 40, 59)), IsOk());
  EXPECT_TRUE(table.Test(kSecond, Range(5, LockType::kShared, 39, 39)).has_value());
  EXPECT_TRUE(table.Test(kSecond, Range(5, LockType::kShared, 60, 60)).has_value());
}

TEST(LockTableTest, SharedLocksGoTogetherAndAnUpgradeWaitsForTheOthers) {
  LockTable table;
  ASSERT_THAT(table.Lock(kFirst, Range(5, LockType::kShared, 0, UINT64_MAX)), IsOk());
  ASSERT_THAT(table.Lock(kSecond, Range(5, LockType::kShared, 0, UINT64_MAX)), IsOk());
  EXPECT_THAT(table.Lock(kFirst, Range(5, LockType::kExclusive, 0, 9)),
              IsError(ErrorCode::kWouldBlock));
  table.Release(InodeId(5), kSecond);
  EXPECT_THAT(table.Lock(kFirst, Range(5, LockType::kExclusive, 0, 9)), IsOk());
}

TEST(LockTableTest, WaiterGetsTheLockWhenItsHolderLeaves) {
  LockTable table;
  ASSERT_THAT(table.Lock(kFirst, Range(5, LockType::kExclusive, 0, 9)), IsOk());
  LockRequest patient = Range(5, LockType::kExclusive, 0, 9);
  patient.wait = std::chrono::seconds(30);
  std::jthread holder([&] { table.ReleaseNode(CampusId(1), NodeId(1)); });
  EXPECT_THAT(table.Lock(kSecond, patient), IsOk());
}

TEST(LockTableTest, TwoOwnersWaitingForEachOtherIsADeadlock) {
  LockTable table;
  ASSERT_THAT(table.Lock(kFirst, Range(5, LockType::kExclusive, 0, 0)), IsOk());
  ASSERT_THAT(table.Lock(kSecond, Range(6, LockType::kExclusive, 0, 0)), IsOk());
  LockRequest first = Range(6, LockType::kExclusive, 0, 0);
  LockRequest second = Range(5, LockType::kExclusive, 0, 0);
  first.wait = second.wait = std::chrono::seconds(30);
  Result<void> of_first;
  std::jthread waiter([&] {
    of_first = table.Lock(kFirst, first);
    if (!of_first.ok()) table.Release(InodeId(5), kFirst);
  });
  const auto of_second = table.Lock(kSecond, second);
  if (!of_second.ok()) table.Release(InodeId(6), kSecond);
  waiter.join();
  // Whoever came second is told; the other gets its lock.
  EXPECT_NE(of_first.ok(), of_second.ok());
  EXPECT_THAT(of_first.ok() ? of_second : of_first, IsError(ErrorCode::kDeadlock));
}

}  // namespace
}  // namespace quadfs::metadata
