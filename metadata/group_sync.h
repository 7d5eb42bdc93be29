#pragma once

#include <cstdint>
#include <optional>

#include "metadata/row_store.h"
#include "transport/base/mutex.h"

namespace quadfs::metadata {

/// Group commit: many writers share one sync of the store's log. Whoever finds no sync under way
/// does it for all that were written before it began.
/// A failed sync is remembered: nothing is acknowledged after it, until a restart.
/// Threads: every method may be called concurrently.
class GroupSync {
 public:
  explicit GroupSync(RowStore& store) : store_(store) {}

  /// Call after a write; the number to wait for.
  uint64_t Written() {
    MutexLock lock(mutex_);
    return ++written_;
  }
  /// Returns when everything up to `ticket` survives a power cut. Errors: kIo.
  Result<void> Wait(uint64_t ticket) {
    MutexLock lock(mutex_);
    while (synced_ < ticket) {
      if (failure_) return *failure_;
      if (running_) {
        done_.Wait(mutex_);
        continue;
      }
      running_ = true;
      const uint64_t through = written_;
      mutex_.unlock();
      auto synced = store_.SyncLog();
      mutex_.lock();
      running_ = false;
      if (synced.ok()) {
        synced_ = through;
      } else {
        failure_ = std::move(synced).error().Within(
            "syncing the log (restart quadfsd when the disk is well)");
      }
      done_.NotifyAll();
    }
    return {};
  }

 private:
  RowStore& store_;
  Mutex mutex_;
  CondVar done_;
  uint64_t written_ QUADFS_GUARDED_BY(mutex_) = 0;
  uint64_t synced_ QUADFS_GUARDED_BY(mutex_) = 0;
  bool running_ QUADFS_GUARDED_BY(mutex_) = false;
  std::optional<Error> failure_ QUADFS_GUARDED_BY(mutex_);
};

}  // namespace quadfs::metadata
