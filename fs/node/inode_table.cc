#include "fs/node/inode_table.h"

namespace quadfs::fs {

InodeTable::Shard& InodeTable::ShardOf(uint64_t nodeid) const {
  return shards_[std::hash<InodeId>{}(InodeId(nodeid)) % shards_.size()];
}

uint64_t InodeTable::CurrentLocked(InodeId inode) const {
  const auto found = incarnations_.find(inode);
  return found == incarnations_.end() ? inode.value : found->second.current;
}

uint64_t InodeTable::Current(InodeId inode) const {
  if (superseded_count_.load() == 0) return inode.value;
  const MutexLock lock(mutex_);
  return CurrentLocked(inode);
}

InodeId InodeTable::InodeOf(uint64_t nodeid) const {
  if ((nodeid & kIncarnation) != kIncarnation) return InodeId(nodeid);
  const MutexLock lock(mutex_);
  const auto found = inode_of_.find(nodeid);
  return found == inode_of_.end() ? InodeId() : found->second;
}

uint64_t InodeTable::Remember(InodeId inode) {
  const uint64_t nodeid = Current(inode);
  Shard& shard = ShardOf(nodeid);
  const MutexLock lock(shard.mutex);
  const auto [entry, fresh] = shard.entries.try_emplace(nodeid);
  if (fresh) ++size_;
  ++entry->second.lookups;
  return nodeid;
}

void InodeTable::Forget(uint64_t nodeid, uint64_t count) {
  {
    Shard& shard = ShardOf(nodeid);
    const MutexLock lock(shard.mutex);
    const auto found = shard.entries.find(nodeid);
    if (found == shard.entries.end()) return;
    if (found->second.lookups > count) {
      found->second.lookups -= count;
      return;
    }
    shard.entries.erase(found);
    --size_;
  }
  if (superseded_count_.load() == 0) return;
  // Once the kernel knows none of an inode's nodeids any more, it begins anew with the first.
  const MutexLock lock(mutex_);
  const auto of = inode_of_.find(nodeid);
  const InodeId inode = of == inode_of_.end() ? InodeId(nodeid) : of->second;
  const auto found = incarnations_.find(inode);
  if (found == incarnations_.end() || Known(inode.value)) return;
  for (const uint64_t other : found->second.nodeids) {
    if (Known(other)) return;
  }
  for (const uint64_t other : found->second.nodeids) inode_of_.erase(other);
  incarnations_.erase(found);
  --superseded_count_;
}

void InodeTable::Supersede(uint64_t nodeid) {
  const InodeId inode = InodeOf(nodeid);
  const MutexLock lock(mutex_);
  if (CurrentLocked(inode) != nodeid) return;
  const auto [entry, fresh] = incarnations_.try_emplace(inode);
  if (fresh) ++superseded_count_;
  const uint64_t next = kIncarnation | next_++;
  entry->second.nodeids.push_back(next);
  entry->second.current = next;
  inode_of_.emplace(next, inode);
}

bool InodeTable::Known(uint64_t nodeid) const {
  if (nodeid == kRootInode.value) return true;
  Shard& shard = ShardOf(nodeid);
  const MutexLock lock(shard.mutex);
  return shard.entries.contains(nodeid);
}

std::vector<uint64_t> InodeTable::All() const {
  std::vector<uint64_t> all;
  for (const Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (const auto& [nodeid, entry] : shard.entries) all.push_back(nodeid);
  }
  return all;
}

void InodeTable::SetPages(uint64_t nodeid, Generation generation) {
  Shard& shard = ShardOf(nodeid);
  const MutexLock lock(shard.mutex);
  const auto found = shard.entries.find(nodeid);
  if (found != shard.entries.end()) found->second.pages = generation;
}

Generation InodeTable::Pages(uint64_t nodeid) const {
  Shard& shard = ShardOf(nodeid);
  const MutexLock lock(shard.mutex);
  const auto found = shard.entries.find(nodeid);
  return found == shard.entries.end() ? Generation() : found->second.pages;
}

}  // namespace quadfs::fs
