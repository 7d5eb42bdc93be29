#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "transport/base/mutex.h"

namespace quadfs::cache {

class CachedObject;

/// The thread that makes stored blocks durable, in batches, and looks after the cache once a
/// second. An object that waits here is held open, so its memory is never less than its row.
/// Threads: every method may be called concurrently; `tick` runs on its thread.
class Syncer {
 public:
  /// `sync_all`: makes the whole disk durable at once, or returns false.
  Syncer(std::chrono::milliseconds interval, uint64_t batch_blocks, std::function<bool()> sync_all,
         std::function<void()> tick);
  ~Syncer() { Stop(); }
  /// Works off what waits and ends the thread. Idempotent; from one thread only.
  void Stop();

  /// `blocks`: weight of what is new. Waits when very much waits already; call with no lock held.
  void Enqueue(std::shared_ptr<CachedObject> object, uint64_t blocks);
  /// Waits until everything enqueued so far went through.
  void Flush();

 private:
  static constexpr size_t kUrgentObjects = 512;  ///< A batch starts at once.
  static constexpr size_t kMostObjects = 4096;   ///< Enqueue waits: bounds memory and descriptors.
  static constexpr size_t kManyObjects = 32;     ///< From here one sync of all beats one for each.
  static constexpr std::chrono::seconds kTickInterval{1};

  void Run();
  bool WaitForWork();
  void Persist(std::vector<std::shared_ptr<CachedObject>>& batch) const;

  const std::chrono::milliseconds interval_;
  const uint64_t batch_blocks_;
  const std::function<bool()> sync_all_;
  const std::function<void()> tick_;
  Mutex mutex_;
  CondVar work_, done_;
  std::vector<std::shared_ptr<CachedObject>> queue_ QUADFS_GUARDED_BY(mutex_);
  uint64_t queued_blocks_ QUADFS_GUARDED_BY(mutex_) = 0;
  uint64_t enqueued_ QUADFS_GUARDED_BY(mutex_) = 0, finished_ QUADFS_GUARDED_BY(mutex_) = 0;
  bool urgent_ QUADFS_GUARDED_BY(mutex_) = false, stop_ QUADFS_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point next_tick_;  ///< Of the thread only.
  std::jthread thread_;
};

}  // namespace quadfs::cache
