#include "fs/hub/tree_mirror.h"

#include <algorithm>
#include <vector>

namespace quadfs::fs {
namespace {

constexpr std::chrono::hours kPurgeEach{1};
constexpr std::chrono::hours kTrashKept{24};
constexpr std::chrono::milliseconds kFirstBackOff{50};
constexpr std::chrono::milliseconds kMaxBackOff{30000};

}  // namespace

TreeMirror::TreeMirror(metadata::LocalStore& local, cache::TreeStore& store,
                       const metadata::View& view, bool all_directories, OnHeld carry,
                       OnHeld on_held)
    : store_(store),
      carry_(std::move(carry)),
      on_held_(std::move(on_held)),
      tree_(local, store, view, all_directories, [this](InodeId inode) { Check(inode); }) {}

void TreeMirror::Start() {
  CheckAll();
  thread_ = std::jthread([this] { Work(); });
}

void TreeMirror::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    work_.NotifyAll();
    idle_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void TreeMirror::OnChange(const metadata::Change& change) {
  for (const InodeId inode : change.attributes) Check(inode);
  for (const InodeId inode : change.removed) Check(inode);
}

void TreeMirror::CheckAll() {
  MutexLock lock(mutex_);
  check_all_ = true;
  work_.NotifyOne();
}

void TreeMirror::Check(InodeId inode) {
  MutexLock lock(mutex_);
  if (stopping_) return;
  if (waiting_.contains(inode)) {
    if (at_work_ == inode) again_ = true;
    return;
  }
  if (waiting_.size() >= kMaxWaiting) {
    check_all_ = true;
    return;
  }
  waiting_[inode] = 0;
  queue_.push_back(inode);
  work_.NotifyOne();
}

TreeMirror::Status TreeMirror::status() const {
  MutexLock lock(mutex_);
  return {waiting_.size(), problem_};
}

Result<void> TreeMirror::WaitIdle(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!stopping_ && (!waiting_.empty() || check_all_ || scanning_)) {
    if (!idle_.WaitUntil(mutex_, deadline.at()) && deadline.Passed()) {
      return Error(ErrorCode::kTimedOut, "the store is behind the namespace: " + problem_);
    }
  }
  return {};
}

void TreeMirror::Work() {
  for (;;) {
    InodeId inode;
    bool scan = false, purge = false;
    {
      MutexLock lock(mutex_);
      while (!stopping_) {
        const auto now = std::chrono::steady_clock::now();
        while (!later_.empty() && later_.begin()->first <= now) {
          queue_.push_back(later_.begin()->second);
          later_.erase(later_.begin());
        }
        if (now >= purge_at_) {
          purge_at_ = now + kPurgeEach;
          purge = true;
          break;
        }
        // A scan only once the queue is empty: then it adds to nothing.
        if (!queue_.empty() || check_all_) break;
        work_.WaitUntil(mutex_,
                        later_.empty() ? purge_at_ : std::min(purge_at_, later_.begin()->first));
      }
      if (stopping_) return;
      if (!purge && !queue_.empty()) {
        inode = at_work_ = queue_.front();
        queue_.pop_front();
        again_ = false;
      } else if (!purge) {
        scan = scanning_ = true;
        check_all_ = false;
      }
    }
    if (purge) Purge();
    if (scan) ScanAll();
    if (inode) Finish(inode, DoOne(inode));
  }
}

void TreeMirror::Purge() {
  const int64_t kept = std::chrono::duration_cast<std::chrono::nanoseconds>(kTrashKept).count();
  if (auto purged = store_.PurgeTrash(Clock::System().WallNanoseconds() - kept); !purged.ok()) {
    MutexLock lock(mutex_);
    problem_ = purged.error().ToString();
  }
}

Result<void> TreeMirror::DoOne(InodeId inode) {
  if (const auto generation = store_.HeldGeneration(inode)) {
    QUADFS_TRY(carry_({inode, *generation}));
  }
  QUADFS_TRY(tree_.Check(inode));
  if (const auto generation = store_.HeldGeneration(inode)) {
    return on_held_({inode, *generation});
  }
  return {};
}

void TreeMirror::Finish(InodeId inode, const Result<void>& outcome) {
  MutexLock lock(mutex_);
  at_work_ = InodeId(0);
  const bool passing = !outcome.ok() && (outcome.error().code() == ErrorCode::kBusy ||
                                         outcome.error().code() == ErrorCode::kUnavailable ||
                                         outcome.error().code() == ErrorCode::kTimedOut);
  uint32_t& failures = waiting_[inode];
  problem_ = outcome.ok()
                 ? ""
                 : "inode " + std::to_string(inode.value) + ": " + outcome.error().ToString();
  if (again_) {
    failures = 0;
    queue_.push_back(inode);
  } else if (!outcome.ok() && (passing || failures + 1 < kAttempts)) {
    const auto back_off = std::min<std::chrono::milliseconds>(
        kMaxBackOff, kFirstBackOff * (1 << std::min(failures, 10U)));
    ++failures;
    later_.emplace(std::chrono::steady_clock::now() + back_off, inode);
  } else {
    waiting_.erase(inode);
  }
  if (waiting_.empty() && !check_all_ && !scanning_) idle_.NotifyAll();
}

void TreeMirror::ScanAll() {
  std::vector<InodeId> all;
  auto scanned = tree_.records().ForEach([&](InodeId inode, const StoreRecord&) {
    all.push_back(inode);
    return true;
  });
  for (const InodeId inode : all) {
    {
      // Work in batches: the queue's bound holds, and changes get their turn in between.
      MutexLock lock(mutex_);
      if (stopping_) break;
    }
    if (auto done = DoOne(inode); !done.ok()) Check(inode);
  }
  MutexLock lock(mutex_);
  scanning_ = false;
  if (!scanned.ok()) problem_ = scanned.error().ToString();
  if (waiting_.empty() && !check_all_) idle_.NotifyAll();
}

}  // namespace quadfs::fs
