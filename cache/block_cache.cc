#include "cache/block_cache.h"

#include <sys/stat.h>

#include <algorithm>

#include "cache/block_cache_impl.h"

namespace quadfs::cache {
namespace {

// Between two ticks so many rows learn when their object was last used; a crash forgets the rest.
constexpr size_t kLastUsesPerTick = 1024;
constexpr size_t kLastUsesAtEnd = 65536;

}  // namespace

BlockCacheImpl::BlockCacheImpl(Options options, IndexStore& index, SlotFiles files)
    : core_(std::move(options), index, std::move(files)) {}

BlockCacheImpl::~BlockCacheImpl() {
  if (core_.syncer) core_.syncer->Stop();
  core_.syncer.reset();
  WriteLastUses(kLastUsesAtEnd);
}

BlockCacheImpl::Loaded BlockCacheImpl::MakeOpen(ObjectTable::Entry* entry, ObjectRow row,
                                                std::shared_ptr<const Manifest> manifest,
                                                UniqueFd fd, bool row_exists) {
  auto object = std::make_shared<CachedObject>(core_, entry, std::move(row), std::move(manifest),
                                               std::move(fd), row_exists);
  core_.table.Attach(entry, object);
  return object;
}

std::shared_ptr<const Manifest> BlockCacheImpl::LoadManifest(const ObjectRow& row) const {
  Manifest manifest;
  if (row.manifest) {
    manifest = Manifest(row.size_bytes, *row.manifest);
  } else if (row.Has(ObjectRow::kManifestRow)) {
    const auto stored = core_.index.Get(ManifestKey(row.slot));
    if (!stored.ok()) return nullptr;
    auto parsed = Manifest::Parse(*stored);
    if (!parsed.ok()) return nullptr;
    manifest = std::move(parsed).value();
  } else if (row.size_bytes != 0 || !row.root) {
    return nullptr;
  }
  // A manifest that is damaged, or of the version that a crash kept from being sealed, is fetched
  // again or not needed.
  if (manifest.size_bytes() != row.size_bytes || manifest.Root() != row.root) return nullptr;
  return std::make_shared<const Manifest>(std::move(manifest));
}

// The caller holds the row lock of the inode.
Result<BlockCacheImpl::Loaded> BlockCacheImpl::LoadLocked(const RowKey& key) {
  if (auto open = core_.table.FindOpen(key)) return open;
  ObjectTable::Entry* const entry = core_.table.Find(key);
  const auto missing = [&] {
    return Error(ErrorCode::kNotFound,
                 "object " + ObjectName({key.inode, key.generation}) + " is not in the cache");
  };
  if (entry == nullptr) return missing();
  const auto stored = core_.index.Get(key.Encode());
  if (!stored.ok() && stored.error().code() == ErrorCode::kNotFound) return missing();
  if (!stored.ok()) return stored.error();
  ObjectRow row = QUADFS_TRY(ObjectRow::Decode(*stored));
  auto manifest = LoadManifest(row);
  return MakeOpen(entry, std::move(row), std::move(manifest), UniqueFd(), /*row_exists=*/true);
}

Result<BlockCacheImpl::Loaded> BlockCacheImpl::Load(const RowKey& key) {
  if (auto open = core_.table.FindOpen(key)) return open;
  MutexLock row(core_.rows.For(key.inode));
  return LoadLocked(key);
}

// The caller holds the row lock of the inode, and no entry has the key.
Result<BlockCacheImpl::Loaded> BlockCacheImpl::CreateLocked(ObjectRow row) {
  row.slot = QUADFS_TRY(core_.NewSlot());
  UniqueFd fd = QUADFS_TRY(core_.files.Create(row.slot));
  ObjectTable::Entry* const entry = core_.table.Insert(
      {.key = row.key(), .slot = row.slot, .size_bytes = row.size_bytes, .flags = row.flags});
  auto manifest = LoadManifest(row);
  return MakeOpen(entry, std::move(row), std::move(manifest), std::move(fd), /*row_exists=*/false);
}

Result<ObjectRef> BlockCacheImpl::Find(const ObjectId& object) {
  return ObjectRef(QUADFS_TRY(Load(RowKey::Of(object))));
}

Result<ObjectRef> BlockCacheImpl::FindOrCreate(const ObjectId& object, uint64_t size_bytes,
                                               const Checksum& given_root) {
  const Checksum root = size_bytes == 0 && !given_root ? Manifest().Root() : given_root;
  const RowKey key = RowKey::Of(object);
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto open = core_.table.FindOpen(key);
    if (!open) {
      MutexLock row(core_.rows.For(object.inode));
      auto loaded = LoadLocked(key);
      if (loaded.ok()) {
        open = std::move(loaded).value();
      } else if (loaded.error().code() != ErrorCode::kNotFound) {
        return std::move(loaded).error();
      } else {
        core_.table.DetachKey(key);  // One without a row is on its way out in another thread.
        ObjectRow fresh;
        fresh.id = object;
        fresh.size_bytes = size_bytes;
        fresh.root = root;
        fresh.present = fresh.written = BlockBitmap(BlockCount(size_bytes));
        return ObjectRef(QUADFS_TRY(CreateLocked(std::move(fresh))));
      }
    }
    if (open->Matches(size_bytes, root)) return ObjectRef(std::move(open));
    open.reset();
    const auto evicted = Evict(object);
    if (!evicted.ok() && evicted.error().code() != ErrorCode::kNotFound) break;
  }
  return Error(ErrorCode::kStale, "object " + ObjectName(object) + " is in use with other content");
}

Result<ObjectRef> BlockCacheImpl::CreateDirty(InodeId inode, Generation base) {
  // Before the row lock: evicting takes row locks, and waits for the syncer, which does too.
  if (core_.files.FreeBytes() < core_.options.free_floor_bytes) {
    QUADFS_TRY(core_.EvictDownTo(0));
  }
  Loaded object;
  {
    MutexLock row(core_.rows.For(inode));
    if (core_.table.FindDirty(inode)) {
      return Error(ErrorCode::kExists, "the inode has a dirty object already");
    }
    ObjectRow fresh;
    fresh.id = {inode, base};
    fresh.flags = ObjectRow::kDirty;
    object = QUADFS_TRY(CreateLocked(std::move(fresh)));
    QUADFS_TRY(object->PutRow());
  }
  return ObjectRef(std::move(object));
}

Result<ObjectRef> BlockCacheImpl::FindDirty(InodeId inode) {
  const auto key = core_.table.FindDirty(inode);
  if (!key) return Error(ErrorCode::kNotFound, "the inode has no dirty object");
  return ObjectRef(QUADFS_TRY(Load(*key)));
}

Result<std::vector<ObjectRef>> BlockCacheImpl::Unsaved() {
  std::vector<ObjectRef> all;
  for (const RowKey& key : core_.table.WithFlags(ObjectRow::kDirty | ObjectRow::kUnsaved)) {
    auto object = Load(key);
    if (object.ok()) {
      all.emplace_back(std::move(object).value());
    } else if (object.error().code() != ErrorCode::kNotFound) {  // Else it went meanwhile.
      return std::move(object).error();
    }
  }
  return all;
}

Result<void> BlockCacheImpl::Evict(const ObjectId& object) {
  const RowKey key = RowKey::Of(object);
  for (int attempt = 0; attempt < 2; ++attempt) {
    switch (core_.table.State(key)) {
      case ObjectTable::Evictable::kAbsent:
        return Error(ErrorCode::kNotFound, "object " + ObjectName(object) + " is not in the cache");
      case ObjectTable::Evictable::kYes:
        if (core_.EvictKey(key)) return {};
        break;
      case ObjectTable::Evictable::kNo: break;
    }
    core_.syncer->Flush();  // What only waits for its sync is not in use.
  }
  return Error(ErrorCode::kBusy,
               "object " + ObjectName(object) + " is open, pinned, or not saved elsewhere yet");
}

Result<void> BlockCacheImpl::SetPinned(const ObjectId& object, bool pinned) {
  const Loaded loaded = QUADFS_TRY(Load(RowKey::Of(object)));
  return loaded->SetPinned(pinned);
}

void BlockCacheImpl::ForEach(
    const std::function<bool(const ObjectId&, uint64_t, uint64_t)>& row) const {
  for (const ObjectTable::Entry& entry : core_.table.All()) {
    const uint64_t size = entry.size_bytes;
    if (!row({entry.key.inode, entry.key.generation}, std::min(entry.bytes, size), size)) return;
  }
}

void BlockCacheImpl::Flush() { core_.syncer->Flush(); }

BlockCache::Status BlockCacheImpl::status() const {
  const ObjectTable::Sums sums = core_.table.sums();
  return {.used_bytes = sums.used_bytes,
          .capacity_bytes = core_.options.capacity_bytes,
          .objects = sums.objects,
          .unsaved_objects = sums.unsaved_objects,
          .dirty_objects = sums.dirty_objects,
          .unsaved_bytes = sums.unsaved_bytes,
          .evicted_objects = core_.evicted_objects,
          .corrupt_blocks = core_.corrupt_blocks,
          .problem = core_.health.problem()};
}

// Once a second, on the syncer's thread.
void BlockCacheImpl::Tick() {
  for (const RowKey& key : core_.table.WithFlags(ObjectRow::kDirty)) {
    if (const auto open = core_.table.FindOpen(key)) open->RefreshBytes();
  }
  // Dirty files grow without asking: others make room for them.
  const uint64_t excess = core_.Excess(0);
  for (uint64_t freed = 0; freed < excess;) {
    const auto victim = core_.table.Victim();
    if (!victim) break;
    freed += core_.EvictKey(*victim).value_or(0);
  }
  WriteLastUses(kLastUsesPerTick);
}

void BlockCacheImpl::WriteLastUses(size_t limit) {
  for (const auto& [key, last_use] : core_.table.TakeTouched(limit)) {
    MutexLock lock(core_.rows.For(key.inode));
    if (core_.table.State(key) != ObjectTable::Evictable::kYes) continue;  // In use: later.
    const auto stored = core_.index.Get(key.Encode());
    if (!stored.ok()) continue;
    auto row = ObjectRow::Decode(*stored);
    if (!row.ok() || row->last_use == last_use) continue;
    row->last_use = last_use;
    if (auto put = core_.index.Put(key.Encode(), row->Encode()); !put.ok()) {
      core_.health.Report(put.error());
      return;
    }
  }
}

}  // namespace quadfs::cache
