#include "fs/data/token_bucket.h"

#include <algorithm>

namespace quadfs::fs {

void TokenBucket::SetRate(uint64_t bytes_per_second) {
  MutexLock lock(mutex_);
  rate_ = bytes_per_second;
  free_at_ = clock_.Now();  // A debt made under another rate is forgiven.
}

uint64_t TokenBucket::rate() const {
  MutexLock lock(mutex_);
  return rate_;
}

uint64_t TokenBucket::PieceBytes() const {
  MutexLock lock(mutex_);
  if (rate_ == 0) return uint64_t{1} << 20;
  return std::clamp<uint64_t>(rate_ / 20, 512, uint64_t{1} << 20);
}

Clock::TimePoint TokenBucket::Take(uint64_t bytes) {
  const auto now = clock_.Now();
  MutexLock lock(mutex_);
  if (rate_ == 0) return now;
  free_at_ = std::max(free_at_, now - kBurst);
  const auto start = free_at_;
  free_at_ += std::chrono::nanoseconds(
      static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(rate_)));
  return std::max(start, now);
}

}  // namespace quadfs::fs
