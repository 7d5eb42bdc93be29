#pragma once

#include <list>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "metadata/locks.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace quadfs::metadata {

/// Who holds a lock: a lock owner of the kernel of one node.
struct LockOwner {
  CampusId campus;
  NodeId node;
  uint64_t owner = 0;
  auto operator<=>(const LockOwner&) const = default;
};

/// POSIX range locks and flock locks of the cluster, in memory at main.
/// Threads: every method may be called concurrently; Lock blocks up to its wait.
class LockTable {
 public:
  /// Errors: kWouldBlock (still held by another after `request.wait`), kDeadlock (POSIX only).
  Result<void> Lock(const LockOwner& owner, const LockRequest& request);
  std::optional<LockHolder> Test(const LockOwner& owner, const LockRequest& request) const;
  /// Drops all of the owner's locks of that inode, of both kinds.
  void Release(InodeId inode, const LockOwner& owner);
  void ReleaseNode(CampusId campus, NodeId node);
  void ReleaseCampus(CampusId campus);
  /// Nodes that hold any lock.
  std::set<std::pair<CampusId, NodeId>> Holders() const;
  void Stop();

 private:
  struct Held {
    LockOwner owner;
    LockType type = LockType::kShared;
    uint64_t first = 0;
    uint64_t last = 0;
    uint32_t pid = 0;
  };
  using Key = std::pair<InodeId, LockKind>;

  const Held* Conflict(const LockOwner& owner, const LockRequest& request) const
      QUADFS_REQUIRES(mutex_);
  void Apply(const LockOwner& owner, const LockRequest& request) QUADFS_REQUIRES(mutex_);
  bool WaitsFor(const LockOwner& from, const LockOwner& target, int depth) const
      QUADFS_REQUIRES(mutex_);
  template <typename Match>
  void Drop(const Match& match);

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<Key, std::vector<Held>> held_ QUADFS_GUARDED_BY(mutex_);
  std::map<LockOwner, std::vector<LockOwner>> waiting_ QUADFS_GUARDED_BY(mutex_);
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
};

}  // namespace quadfs::metadata
