#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <unordered_map>

#include "fs/hub/store_tree.h"
#include "metadata/change.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// Keeps the campus's store as the namespace says, behind the changes: renames, removals, modes,
/// owners, times, moves of directories. At start it goes through all that the store has, and hands
/// each held version to `carry`, which saves what lost a merge, and to `on_held`, which tells the
/// log what it may not know. Threads: every method may be called concurrently; a thread of its own
/// does the work.
class TreeMirror {
 public:
  struct Status {
    uint64_t waiting = 0;
    std::string problem;  ///< Last failure; empty after a success.
  };
  /// Errors of these are tried again.
  using OnHeld = std::function<Result<void>(const ObjectId&)>;

  TreeMirror(metadata::LocalStore& local, cache::TreeStore& store, const metadata::View& view,
             bool all_directories, OnHeld carry, OnHeld on_held);
  ~TreeMirror() { Stop(); }

  StoreTree& tree() { return tree_; }
  void Start();
  void Stop();
  void OnChange(const metadata::Change& change);
  /// Checks everything the store has, as at start.
  void CheckAll();
  void Check(InodeId inode);
  Status status() const;
  /// Waits until nothing is left to do.
  Result<void> WaitIdle(Deadline deadline);

 private:
  static constexpr size_t kMaxWaiting = 1'000'000;  ///< Beyond it everything is checked instead.
  static constexpr uint32_t kAttempts = 12;
  void Work();
  Result<void> DoOne(InodeId inode);
  void Finish(InodeId inode, const Result<void>& outcome);
  void ScanAll();
  void Purge();

  cache::TreeStore& store_;
  const OnHeld carry_, on_held_;

  mutable Mutex mutex_;
  CondVar work_, idle_;
  std::deque<InodeId> queue_ QUADFS_GUARDED_BY(mutex_);
  std::multimap<Clock::TimePoint, InodeId> later_ QUADFS_GUARDED_BY(mutex_);
  /// Everything in queue_, later_ or at work; value: failures so far.
  std::unordered_map<InodeId, uint32_t> waiting_ QUADFS_GUARDED_BY(mutex_);
  InodeId at_work_ QUADFS_GUARDED_BY(mutex_);
  bool again_ QUADFS_GUARDED_BY(mutex_) = false;  ///< at_work_ changed meanwhile.
  bool check_all_ QUADFS_GUARDED_BY(mutex_) = false;
  bool scanning_ QUADFS_GUARDED_BY(mutex_) = false;
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
  std::string problem_ QUADFS_GUARDED_BY(mutex_);
  Clock::TimePoint purge_at_ QUADFS_GUARDED_BY(mutex_){};
  StoreTree tree_;
  std::jthread thread_;
};

}  // namespace quadfs::fs
