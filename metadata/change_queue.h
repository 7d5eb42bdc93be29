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

/// Hands events to a ChangeListener in order, on a thread of its own; changes up to a millisecond
/// later: many small ones would otherwise cost a change of threads each.
/// Threads: every method may be called concurrently; Stop waits for the event under way.
class ChangeQueue {
 public:
  explicit ChangeQueue(ChangeListener& listener);
  ~ChangeQueue() { Stop(); }
  using Event = std::function<void(ChangeListener&)>;
  void Post(Event event) { Add(std::move(event), true); }
  void PostChange(Change change) {
    Add([change = std::move(change)](ChangeListener& listener) { listener.OnChange(change); },
        false);
  }
  void Stop();

 private:
  void Add(Event event, bool urgent);
  void Run();

  ChangeListener& listener_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Event> events_ QUADFS_GUARDED_BY(mutex_);
  bool idle_ QUADFS_GUARDED_BY(mutex_) = false;    ///< The thread waits for an event.
  bool urgent_ QUADFS_GUARDED_BY(mutex_) = false;  ///< One of the events is not to wait for more.
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace quadfs::metadata
