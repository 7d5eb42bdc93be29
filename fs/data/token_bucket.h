#pragma once

#include <cstdint>

#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// A cap on bytes per second that many uploads share: at most a twentieth of a second's worth may
/// go out at once. It only counts: the caller waits. Threads: every method may be called
/// concurrently.
class TokenBucket {
 public:
  /// `bytes_per_second` 0: no cap.
  TokenBucket(uint64_t bytes_per_second, const Clock& clock) : clock_(clock) {
    SetRate(bytes_per_second);
  }
  void SetRate(uint64_t bytes_per_second);
  uint64_t rate() const;
  /// Largest piece to ask for at once, so that nobody waits long.
  uint64_t PieceBytes() const;
  /// Takes `bytes`, which may go out from the moment returned on.
  Clock::TimePoint Take(uint64_t bytes);

 private:
  static constexpr std::chrono::milliseconds kBurst{50};
  const Clock& clock_;
  mutable Mutex mutex_;
  uint64_t rate_ QUADFS_GUARDED_BY(mutex_) = 0;
  Clock::TimePoint free_at_ QUADFS_GUARDED_BY(mutex_){};  ///< When all bytes taken have gone out.
};

}  // namespace quadfs::fs
