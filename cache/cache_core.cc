#include "cache/cache_core.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace quadfs::cache {

Result<uint64_t> CacheCore::NewSlot() {
  MutexLock lock(slot_mutex);
  if (next_slot >= slot_limit) {
    const uint64_t limit = next_slot + kSlotRun;
    QUADFS_TRY(index.Put(kNextSlotKey, KeyNumber(limit)));
    QUADFS_TRY(index.Sync());
    slot_limit = limit;
  }
  return next_slot++;
}

Result<void> CacheCore::SyncData(int fd) {
  if (options.sync_data) {
    const int failed = options.sync_data(fd);
    if (failed != 0) return ErrorFromErrno(failed, "fdatasync of a cache file");
    return {};
  }
  if (::fdatasync(fd) != 0) return ErrorFromErrno(errno, "fdatasync of a cache file");
  return {};
}

void CacheCore::EraseRows(const RowKey& key, uint64_t slot, bool manifest_row) {
  // A row that stays is found without its file at the next start, and goes then.
  if (auto erased = index.Erase(key.Encode()); !erased.ok()) health.Report(erased.error());
  if (!manifest_row) return;
  if (auto erased = index.Erase(ManifestKey(slot)); !erased.ok()) health.Report(erased.error());
}

std::optional<uint64_t> CacheCore::EvictKey(const RowKey& key) {
  std::optional<ObjectTable::Entry> taken;
  {
    MutexLock row(rows.For(key.inode));
    taken = table.TakeVictim(key);
    if (!taken) return std::nullopt;
    EraseRows(key, taken->slot, (taken->flags & ObjectRow::kManifestRow) != 0);
  }
  files.Remove(taken->slot);
  ++evicted_objects;
  return taken->bytes;
}

uint64_t CacheCore::Excess(uint64_t spare_bytes) const {
  const auto above = [](uint64_t value, uint64_t limit) {
    return value > limit ? value - limit : 0;
  };
  return std::max(above(table.sums().used_bytes + spare_bytes, options.capacity_bytes),
                  above(options.free_floor_bytes + spare_bytes, files.FreeBytes()));
}

// A file system may give space back late, so what was evicted counts, not only what statvfs says:
// otherwise one slow moment would empty the cache.
Result<void> CacheCore::EvictDownTo(uint64_t spare_bytes) {
  constexpr int kRounds = 3;
  bool flushed = false;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t needed = Excess(spare_bytes);
    if (needed == 0) return {};
    for (uint64_t freed = 0; freed < needed;) {
      if (const auto victim = table.Victim()) {
        freed += EvictKey(*victim).value_or(0);
        continue;
      }
      if (flushed) break;
      flushed = true;
      syncer->Flush();  // What waits for its sync is held open.
    }
  }
  if (Excess(spare_bytes) == 0) return {};
  const bool full = table.sums().used_bytes + spare_bytes > options.capacity_bytes;
  return Error(ErrorCode::kNoSpace,
               "the cache " + options.directory +
                   (full ? " is full of pinned, open and unsaved files: raise cache_bytes"
                         : " is on a disk with too little free space: make room there"));
}

Result<void> CacheCore::MakeRoom(ObjectTable::Entry* entry, uint64_t bytes) {
  if (auto room = EvictDownTo(bytes); !room.ok()) {
    health.Report(room.error());
    return room;
  }
  table.Charge(entry, bytes);
  return {};
}

}  // namespace quadfs::cache
