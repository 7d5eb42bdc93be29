// What Open does with the state that a clean end, a killed process or a power cut left.
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "cache/block_cache_impl.h"

namespace quadfs::cache {
namespace {

Result<std::string> KernelBootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (!(file >> id)) return Error(ErrorCode::kIo, "cannot read /proc/sys/kernel/random/boot_id");
  return id.substr(0, 255);
}

}  // namespace

struct BlockCacheImpl::Recovered {
  std::vector<uint64_t> files;  ///< Slots that have a file, ascending.
  std::vector<uint64_t> named;  ///< Slots that a row names.
  std::vector<ObjectTable::Entry> entries;
  uint64_t unreadable_rows = 0;
  uint64_t lost_objects = 0;  ///< Dirty or unsaved ones whose file is gone.
  bool HasFile(uint64_t slot) const { return std::binary_search(files.begin(), files.end(), slot); }
};

Result<std::unique_ptr<BlockCache>> BlockCache::Open(Options options, IndexStore& index) {
  if (options.directory.empty() || options.capacity_bytes == 0 || options.sync_blocks == 0) {
    return Error(ErrorCode::kInvalidArgument, "a cache needs a directory and a capacity");
  }
  if (options.boot_id.empty()) options.boot_id = QUADFS_TRY(KernelBootId());
  SlotFiles files = QUADFS_TRY(SlotFiles::Open(options.directory));
  auto cache = std::make_unique<BlockCacheImpl>(std::move(options), index, std::move(files));
  QUADFS_TRY(cache->Recover());
  return std::unique_ptr<BlockCache>(std::move(cache));
}

// False if the index belongs to another directory.
Result<bool> BlockCacheImpl::CheckIdentity() {
  const std::string identity = QUADFS_TRY(core_.files.Identity());
  const auto known = core_.index.Get(kIdentityKey);
  if (known.ok() && *known == identity) return true;
  if (!known.ok() && known.error().code() != ErrorCode::kNotFound) return known.error();
  QUADFS_TRY(core_.index.Put(kIdentityKey, identity));
  QUADFS_TRY(core_.index.Sync());
  return false;
}

void BlockCacheImpl::AdoptRow(const RowKey& key, ObjectRow row, Recovered& found) {
  const bool same_boot = row.boot_id == core_.options.boot_id;
  if (!found.HasFile(row.slot)) {
    // A power cut takes new files that nobody synced, as on any local file system.
    if (row.Has(ObjectRow::kUnsaved) && !row.Has(ObjectRow::kUnsynced)) ++found.lost_objects;
    core_.EraseRows(key, row.slot, row.Has(ObjectRow::kManifestRow));
    return;
  }
  ObjectTable::Entry entry{.key = key,
                           .slot = row.slot,
                           .size_bytes = row.size_bytes,
                           .bytes = std::min(row.present.count() * kBlockBytes, row.size_bytes),
                           .last_use = row.last_use,
                           .flags = row.flags};
  bool changed = false;
  if (row.Has(ObjectRow::kUnsynced) && !same_boot) {
    row.signature = {};  // Its data may be older than its row: it is checked before it is used.
    row.flags &= static_cast<uint8_t>(~ObjectRow::kUnsynced);
    changed = true;
  }
  if (row.Has(ObjectRow::kDirty)) {
    struct stat status {};
    if (::stat(core_.files.PathOf(row.slot).c_str(), &status) == 0) {
      entry.bytes = static_cast<uint64_t>(status.st_blocks) * 512;
      const auto size = static_cast<uint64_t>(status.st_size);
      changed = changed || row.fill_limit > size;
      row.fill_limit = std::min(row.fill_limit, size);
    }
    if (row.written.count() > 0 && !same_boot) {
      row.written = BlockBitmap(row.written.size());
      changed = true;
    }
  }
  if (changed) {
    entry.flags = row.flags;
    row.boot_id = core_.options.boot_id;
    if (auto put = core_.index.Put(key.Encode(), row.Encode()); !put.ok()) {
      core_.health.Report(put.error());
    }
  }
  found.named.push_back(row.slot);
  found.entries.push_back(entry);
}

Result<void> BlockCacheImpl::ReadRows(Recovered& found) {
  std::vector<std::string> unreadable;
  for (const std::string_view prefix : {kObjectPrefix, kDirtyPrefix}) {
    std::vector<std::pair<RowKey, ObjectRow>> rows;
    std::optional<Error> newer;
    QUADFS_TRY(core_.index.Scan(prefix, [&](std::string_view key, std::string_view value) {
      const auto row_key = RowKey::Decode(key);
      auto row = ObjectRow::Decode(value);
      if (!row.ok() && row.error().code() == ErrorCode::kInvalidArgument) {
        newer = row.error();
        return false;
      }
      if (!row_key || !row.ok() || row->key() != *row_key) {
        unreadable.emplace_back(key);
      } else {
        rows.emplace_back(*row_key, std::move(row).value());
      }
      return true;
    }));
    if (newer) return *std::move(newer);
    for (auto& [key, row] : rows) AdoptRow(key, std::move(row), found);
  }
  found.unreadable_rows = unreadable.size();
  std::sort(found.named.begin(), found.named.end());
  for (const std::string& key : unreadable) QUADFS_TRY(core_.index.Erase(key));
  return {};
}

void BlockCacheImpl::HandleOrphans(const Recovered& found, bool keep_them) {
  uint64_t kept = 0;
  for (const uint64_t slot : found.files) {
    if (std::binary_search(found.named.begin(), found.named.end(), slot)) continue;
    if (!keep_them) {
      core_.files.Remove(slot);
    } else if (auto aside = core_.files.SetAside(slot); aside.ok()) {
      ++kept;
    }
  }
  std::string problem;
  if (kept > 0) {
    problem = std::to_string(kept) + " files without a readable index row were set aside in " +
              core_.options.directory + "/lost: look through them, then delete them";
  }
  if (found.lost_objects > 0) {
    if (!problem.empty()) problem += "; ";
    problem += std::to_string(found.lost_objects) +
               " files not yet saved elsewhere are gone from " + core_.options.directory;
  }
  if (!problem.empty()) core_.health.Report(Health::kRecovery, problem);
}

Result<void> BlockCacheImpl::Recover() {
  Recovered found;
  const bool own_index = QUADFS_TRY(CheckIdentity());
  found.files = QUADFS_TRY(core_.files.List());
  QUADFS_TRY(ReadRows(found));
  HandleOrphans(found, /*keep_them=*/!own_index || found.unreadable_rows > 0);

  std::vector<std::string> stale_manifests;
  QUADFS_TRY(core_.index.Scan(kManifestPrefix, [&](std::string_view key, std::string_view) {
    const uint64_t slot = KeyNumberAt(key, kManifestPrefix.size());
    if (!std::binary_search(found.named.begin(), found.named.end(), slot)) {
      stale_manifests.emplace_back(key);
    }
    return true;
  }));
  for (const std::string& key : stale_manifests) QUADFS_TRY(core_.index.Erase(key));

  std::sort(found.entries.begin(), found.entries.end(),
            [](const auto& a, const auto& b) { return a.last_use < b.last_use; });
  for (const ObjectTable::Entry& entry : found.entries) core_.table.Insert(entry);
  if (!found.entries.empty()) core_.table.StartClock(found.entries.back().last_use);

  const auto next = core_.index.Get(kNextSlotKey);
  if (!next.ok() && next.error().code() != ErrorCode::kNotFound) return next.error();
  {
    MutexLock lock(core_.slot_mutex);
    core_.next_slot = next.ok() ? KeyNumberAt(*next, 0) : 1;
    if (!found.files.empty()) core_.next_slot = std::max(core_.next_slot, found.files.back() + 1);
    if (!found.named.empty()) core_.next_slot = std::max(core_.next_slot, found.named.back() + 1);
    core_.slot_limit = core_.next_slot;
  }
  core_.syncer = std::make_unique<Syncer>(
      core_.options.sync_interval, core_.options.sync_blocks,
      [this] { return !core_.options.sync_data && core_.files.SyncAll(); }, [this] { Tick(); });
  // What the killed predecessor had in the page cache still has to reach the disk.
  for (const RowKey& key : core_.table.WithFlags(ObjectRow::kUnsynced | ObjectRow::kPartialDirty)) {
    if (auto object = Load(key); object.ok()) (*object)->Queue(1);
  }
  return {};
}

}  // namespace quadfs::cache
