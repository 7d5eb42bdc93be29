#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "transport/base/ids.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// Who of this node's lock owners may hold fcntl locks on an inode, and through which handles, so
/// that a close asks the hub only if there is something to release.
/// Threads: every method may be called concurrently; none waits.
class LockOwners {
 public:
  void Add(InodeId inode, uint64_t owner, uint64_t handle);
  /// A process closed a descriptor: true if this owner may hold locks, which all go now.
  bool TakeOwner(InodeId inode, uint64_t owner);
  /// A handle is gone: owners whose locks came through it and were never flushed (OFD locks).
  std::vector<uint64_t> TakeHandle(InodeId inode, uint64_t handle);

 private:
  using Owners = std::map<uint64_t, std::set<uint64_t>>;  ///< Owner → handles.
  Mutex mutex_;
  std::map<InodeId, Owners> inodes_ QUADFS_GUARDED_BY(mutex_);
};

}  // namespace quadfs::fs
