#include "fs/data/read_ahead.h"

#include <gtest/gtest.h>

#include <set>

namespace quadfs::fs {
namespace {

// A sequential reader: windows grow to the bound, everything is asked for once, nothing twice.
TEST(ReadAheadTest, ASequentialReaderIsKeptAheadOfByAGrowingWindow) {
  ReadAhead ahead(1000, 64);
  std::set<uint64_t> asked;
  uint64_t largest = 0, farthest_ahead = 0;
  bool complete = false;
  for (uint64_t block = 0; block < 500; ++block) {
    const auto advice = ahead.Note(block, block);
    for (uint64_t i = 0; i < advice.count; ++i) {
      EXPECT_TRUE(asked.insert(advice.first + i).second) << advice.first + i;
      EXPECT_GT(advice.first + i, block);
    }
    largest = std::max(largest, advice.count);
    if (!asked.empty()) farthest_ahead = std::max(farthest_ahead, *asked.rbegin() - block);
    complete = complete || advice.complete;
  }
  EXPECT_LE(farthest_ahead, 64U);
  EXPECT_GE(farthest_ahead, 60U);
  EXPECT_GE(largest, 32U);
  EXPECT_TRUE(complete);
  for (uint64_t block = 3; block < 500; ++block) EXPECT_TRUE(asked.contains(block)) << block;
}

// Random reads: only what is asked for, never completion.
TEST(ReadAheadTest, ARandomReaderGetsNothingAhead) {
  ReadAhead ahead(10000, 64);
  uint64_t block = 17;
  for (int i = 0; i < 1000; ++i) {
    block = (block * 2654435761U + 12345) % 10000;
    const auto advice = ahead.Note(block, block);
    EXPECT_FALSE(advice.complete);
    EXPECT_LE(advice.count, 2U);
  }
}

// Four readers of one file take turns: each is followed as if it were alone.
TEST(ReadAheadTest, InterleavedReadersAreToldApart) {
  ReadAhead ahead(4000, 16);
  uint64_t asked[4] = {};
  for (uint64_t step = 0; step < 100; ++step) {
    for (uint64_t reader = 0; reader < 4; ++reader) {
      const uint64_t block = reader * 1000 + step;
      asked[reader] += ahead.Note(block, block).count;
    }
  }
  for (const uint64_t count : asked) EXPECT_GE(count, 90U);
}

TEST(ReadAheadTest, CompletionIsAdvisedOnceUnlessItFailed) {
  ReadAhead ahead(1000, 16);
  int advised = 0;
  for (uint64_t block = 0; block < 100; ++block) advised += ahead.Note(block, block).complete;
  EXPECT_EQ(advised, 1);
  ahead.CompletionFailed();
  for (uint64_t block = 100; block < 110; ++block) advised += ahead.Note(block, block).complete;
  EXPECT_EQ(advised, 2);
}

}  // namespace
}  // namespace quadfs::fs
