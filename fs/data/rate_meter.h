#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "transport/base/clock.h"

namespace quadfs::fs {

/// Bytes per second over the last 10 s, in one-second buckets. Threads: one at a time.
class RateMeter {
 public:
  void Add(uint64_t bytes, Clock::TimePoint now) {
    Advance(now);
    buckets_[static_cast<size_t>(second_ % kSeconds)] += bytes;
  }
  double BytesPerSecond(Clock::TimePoint now) {
    Advance(now);
    uint64_t sum = 0;
    for (const uint64_t bytes : buckets_) sum += bytes;
    return static_cast<double>(sum) / kSeconds;
  }

 private:
  static constexpr int64_t kSeconds = 10;
  void Advance(Clock::TimePoint now) {
    const int64_t second =
        std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    for (int64_t i = std::max(second_ + 1, second - kSeconds + 1); i <= second; ++i) {
      buckets_[static_cast<size_t>(i % kSeconds)] = 0;
    }
    second_ = std::max(second_, second);
  }
  std::array<uint64_t, kSeconds> buckets_{};
  int64_t second_ = 0;
};

}  // namespace quadfs::fs
