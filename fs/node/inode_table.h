#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "transport/base/ids.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// What the kernel knows: its inodes by number ("nodeid") with their lookup counts.
///
/// A nodeid is the InodeId. When a file with open handles gets a new version elsewhere, the kernel
/// inode goes on showing the old one, and the InodeId gets another nodeid (an *incarnation*, of
/// origin 0xFFFF, which no campus has) for later lookups: the kernel allows one content and one I/O
/// mode per nodeid.
/// Threads: every method may be called concurrently; none waits for I/O.
class InodeTable {
 public:
  static constexpr uint64_t kIncarnation = uint64_t{0xFFFF} << 48;

  /// The nodeid for replies about `inode`, with one lookup more.
  uint64_t Remember(InodeId inode);
  /// Takes lookups back (forget, or a reply that was not delivered).
  void Forget(uint64_t nodeid, uint64_t count);

  InodeId InodeOf(uint64_t nodeid) const;
  /// The nodeid that lookups of `inode` get now.
  uint64_t Current(InodeId inode) const;
  bool superseded(uint64_t nodeid) const { return Current(InodeOf(nodeid)) != nodeid; }
  /// Lookups of its inode get another nodeid from now on. Nothing if that is so already.
  void Supersede(uint64_t nodeid);

  bool Known(uint64_t nodeid) const;
  size_t size() const { return size_.load(); }
  std::vector<uint64_t> All() const;

  /// The version whose bytes the kernel's page cache may hold for a nodeid (0: none that we know).
  void SetPages(uint64_t nodeid, Generation generation);
  Generation Pages(uint64_t nodeid) const;

 private:
  struct Entry {
    uint64_t lookups = 0;
    Generation pages;
  };
  struct Shard {
    mutable Mutex mutex;
    std::unordered_map<uint64_t, Entry> entries QUADFS_GUARDED_BY(mutex);
  };
  struct Incarnations {
    std::vector<uint64_t> nodeids;
    uint64_t current = 0;
  };
  Shard& ShardOf(uint64_t nodeid) const;
  uint64_t CurrentLocked(InodeId inode) const QUADFS_REQUIRES(mutex_);

  mutable std::array<Shard, 64> shards_;
  std::atomic<size_t> size_{0};
  std::atomic<size_t> superseded_count_{0};  ///< Without any, mutex_ is not taken.
  mutable Mutex mutex_;
  uint64_t next_ QUADFS_GUARDED_BY(mutex_) = 1;
  std::unordered_map<uint64_t, InodeId> inode_of_ QUADFS_GUARDED_BY(mutex_);
  std::unordered_map<InodeId, Incarnations> incarnations_ QUADFS_GUARDED_BY(mutex_);
};

}  // namespace quadfs::fs
