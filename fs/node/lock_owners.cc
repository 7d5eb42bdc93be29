#include "fs/node/lock_owners.h"

namespace quadfs::fs {

void LockOwners::Add(InodeId inode, uint64_t owner, uint64_t handle) {
  const MutexLock lock(mutex_);
  inodes_[inode][owner].insert(handle);
}

bool LockOwners::TakeOwner(InodeId inode, uint64_t owner) {
  const MutexLock lock(mutex_);
  const auto found = inodes_.find(inode);
  if (found == inodes_.end()) return false;
  const bool taken = found->second.erase(owner) > 0;
  if (found->second.empty()) inodes_.erase(found);
  return taken;
}

std::vector<uint64_t> LockOwners::TakeHandle(InodeId inode, uint64_t handle) {
  std::vector<uint64_t> owners;
  const MutexLock lock(mutex_);
  const auto found = inodes_.find(inode);
  if (found == inodes_.end()) return owners;
  for (auto it = found->second.begin(); it != found->second.end();) {
    if (it->second.contains(handle)) {
      owners.push_back(it->first);
      it = found->second.erase(it);
    } else {
      ++it;
    }
  }
  if (found->second.empty()) inodes_.erase(found);
  return owners;
}

}  // namespace quadfs::fs
