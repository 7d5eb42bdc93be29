#pragma once

#include <atomic>
#include <functional>

#include "transport/base/mutex.h"

namespace quadfs::fs {

/// Threads of requests that wait for locks; they end with the mount.
/// Threads: every method may be called concurrently.
class LockWaiters {
 public:
  /// Waiting at once on this mount, each with a thread.
  static constexpr int kMax = 1024;

  ~LockWaiters() { Stop(); }
  /// False: too many wait already.
  bool Run(std::function<void()> wait);
  /// True once the mount ends: waiters give up at their next round.
  bool stopping() const { return stopping_.load(); }
  /// Returns when all waiters are gone.
  void Stop();

 private:
  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  CondVar gone_;
  int running_ QUADFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace quadfs::fs
