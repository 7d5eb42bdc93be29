#include "fs/data/token_bucket.h"

#include <gtest/gtest.h>

namespace quadfs::fs {
namespace {

class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return now; }
  int64_t WallNanoseconds() const override { return 0; }
  TimePoint now{std::chrono::hours(1)};
};

// Ten seconds of takers who wait as told, on a clock that only they move: within 10 % of the cap.
TEST(TokenBucketTest, TheCapIsKeptWithinTenPercent) {
  FakeClock clock;
  TokenBucket bucket(10'000'000, clock);
  const auto begun = clock.now;
  uint64_t sent = 0;
  while (clock.now < begun + std::chrono::seconds(10)) {
    const uint64_t piece = bucket.PieceBytes();
    clock.now = std::max(clock.now, bucket.Take(piece));
    sent += piece;
  }
  EXPECT_NEAR(static_cast<double>(sent), 100e6, 10e6);
}

// A taker that was idle may not catch up on what it did not use.
TEST(TokenBucketTest, IdleTimeIsNotSavedUp) {
  FakeClock clock;
  TokenBucket bucket(1'000'000, clock);
  bucket.Take(1);
  clock.now += std::chrono::minutes(10);
  uint64_t at_once = 0;
  while (bucket.Take(10'000) <= clock.now) at_once += 10'000;
  EXPECT_LE(at_once, 100'000U);
}

TEST(TokenBucketTest, WithoutACapNobodyWaits) {
  FakeClock clock;
  TokenBucket bucket(0, clock);
  for (int i = 0; i < 1000; ++i) EXPECT_LE(bucket.Take(uint64_t{1} << 30), clock.now);
}

}  // namespace
}  // namespace quadfs::fs
