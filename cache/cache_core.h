#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "cache/block_cache.h"
#include "cache/health.h"
#include "cache/object_table.h"
#include "cache/slot_files.h"
#include "cache/syncer.h"
#include "transport/base/mutex.h"

namespace quadfs::cache {

/// One lock for all rows of an inode (striped): taken around every change of a row and every change
/// of which object a key means. It is held across writes to the index, never across data I/O.
/// Order: row lock, then an object's mutex, then the table's.
class RowLocks {
 public:
  Mutex& For(InodeId inode) { return locks_[std::hash<InodeId>{}(inode) % locks_.size()]; }

 private:
  std::array<Mutex, 256> locks_;
};

/// What the objects of one cache share. Threads: as its parts. Lifetime: outlives every object.
struct CacheCore {
  CacheCore(BlockCache::Options given, IndexStore& store, SlotFiles slot_files)
      : options(std::move(given)), index(store), files(std::move(slot_files)) {}

  BlockCache::Options options;
  IndexStore& index;
  SlotFiles files;
  ObjectTable table;
  RowLocks rows;
  Health health;
  std::atomic<uint64_t> evicted_objects{0}, corrupt_blocks{0};
  std::unique_ptr<Syncer> syncer;

  /// A slot number never used before. Errors: those of the index.
  Result<uint64_t> NewSlot();
  /// Charges `bytes` to the entry, evicting what it takes. Errors: kNoSpace.
  Result<void> MakeRoom(ObjectTable::Entry* entry, uint64_t bytes);
  /// Evicts until there are `spare_bytes` below the limits. Not on the syncer's thread.
  /// Errors: kNoSpace.
  Result<void> EvictDownTo(uint64_t spare_bytes);
  /// Bytes by which the cache is above its limits.
  uint64_t Excess(uint64_t spare_bytes) const;
  /// Disk space it gave back; none if it may not be evicted.
  std::optional<uint64_t> EvictKey(const RowKey& key);
  /// fdatasync. Errors: kIo, kNoSpace.
  Result<void> SyncData(int fd);
  /// Erases the rows of an object; the caller holds the row lock.
  void EraseRows(const RowKey& key, uint64_t slot, bool manifest_row);

  /// Slots are taken from the index in runs, so that a new file costs no row.
  static constexpr uint64_t kSlotRun = 4096;
  Mutex slot_mutex;
  uint64_t next_slot QUADFS_GUARDED_BY(slot_mutex) = 1, slot_limit
                                                        QUADFS_GUARDED_BY(slot_mutex) = 1;
};

}  // namespace quadfs::cache
