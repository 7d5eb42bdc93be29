#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cache/cached_object.h"

namespace quadfs::cache {

/// BlockCache over a CacheCore: finds, makes and loads objects. Recovery is in
/// block_cache_recovery.cc.
class BlockCacheImpl final : public BlockCache {
 public:
  BlockCacheImpl(Options options, IndexStore& index, SlotFiles files);
  ~BlockCacheImpl() override;

  /// Before the first use.
  Result<void> Recover();

  Result<ObjectRef> Find(const ObjectId& object) override;
  Result<ObjectRef> FindOrCreate(const ObjectId& object, uint64_t size_bytes,
                                 const Checksum& root) override;
  Result<ObjectRef> CreateDirty(InodeId inode, Generation base) override;
  Result<ObjectRef> FindDirty(InodeId inode) override;
  Result<std::vector<ObjectRef>> Unsaved() override;
  Result<void> Evict(const ObjectId& object) override;
  Result<void> SetPinned(const ObjectId& object, bool pinned) override;
  void ForEach(const std::function<bool(const ObjectId&, uint64_t, uint64_t)>& row) const override;
  void Flush() override;
  Status status() const override;

 private:
  struct Recovered;
  using Loaded = std::shared_ptr<CachedObject>;
  /// The object of that key, open or from its row. Errors: kNotFound, those of the index.
  Result<Loaded> Load(const RowKey& key);
  Result<Loaded> LoadLocked(const RowKey& key);
  Loaded MakeOpen(ObjectTable::Entry* entry, ObjectRow row,
                  std::shared_ptr<const Manifest> manifest, UniqueFd fd, bool row_exists);
  Result<Loaded> CreateLocked(ObjectRow row);
  std::shared_ptr<const Manifest> LoadManifest(const ObjectRow& row) const;
  void Tick();
  void WriteLastUses(size_t limit);

  Result<bool> CheckIdentity();
  Result<void> ReadRows(Recovered& found);
  void AdoptRow(const RowKey& key, ObjectRow row, Recovered& found);
  void HandleOrphans(const Recovered& found, bool keep_them);

  CacheCore core_;
};

}  // namespace quadfs::cache
