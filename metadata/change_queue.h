#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "metadata/change.h"
#include "metadata/row_store.h"
#include "transport/base/mutex.h"

namespace quadfs::metadata {

/// What a set of row changes means for kernel caches, archives and fetchers. `before`: the state
/// without them.
Result<Change> DescribeChange(const RowReader& before, const std::vector<RowChange>& rows);

/// Hands events to a ChangeListener in order, on a thread of its own.
/// Threads: every method may be called concurrently; Stop waits for the event under way.
class ChangeQueue {
 public:
  explicit ChangeQueue(ChangeListener& listener);
  ~ChangeQueue() { Stop(); }
  void Post(std::function<void(ChangeListener&)> event);
  void PostChange(Change change) {
    Post([change = std::move(change)](ChangeListener& listener) { listener.OnChange(change); });
  }
  void Stop();

 private:
  void Run();

  ChangeListener& listener_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void(ChangeListener&)>> events_ QUADFS_GUARDED_BY(mutex_);
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace quadfs::metadata
