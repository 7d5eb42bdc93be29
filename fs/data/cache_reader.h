#pragma once

#include <functional>

#include "cache/block_cache.h"
#include "fs/data/uploader.h"
#include "fs/data/want_server.h"
#include "metadata/view.h"

namespace quadfs::fs {

/// A node's cache as what the write-back queue and the hub's wants read from. A version that lost a
/// merge is handed over, before it is dropped, to the conflict copy that names it now.
/// Threads: every method may be called concurrently. Lifetime: cache and view outlive it.
class CacheReader final : public UploadReader, public WantReader {
 public:
  /// `confirm` returns when what the view shows is what the hub has.
  using Confirm = std::function<Result<void>()>;
  /// Called once the cache holds a version, unsaved, under the inode of its conflict copy.
  using OnCarried = std::function<Result<void>(const ObjectId&)>;
  CacheReader(cache::BlockCache& cache, const metadata::View& view, Confirm confirm,
              OnCarried on_carried)
      : cache_(cache),
        view_(view),
        confirm_(std::move(confirm)),
        on_carried_(std::move(on_carried)) {}

  Need NeedOf(const ObjectId& object) override;
  uint64_t SizeOf(const ObjectId& object) override;
  Result<cache::Manifest> ManifestOf(const ObjectId& object) override;
  Result<std::vector<std::byte>> ReadBlock(const ObjectId& object, uint64_t index) override;
  void Saved(const ObjectId& object) override;
  void Dropped(const ObjectId& object) override;

  Result<cache::Manifest> WantedManifest(const ObjectId& object, Deadline) override {
    return ManifestOf(object);
  }
  Result<std::vector<std::byte>> WantedBlock(const ObjectId& object, uint64_t index,
                                             Deadline) override {
    return ReadBlock(object, index);
  }

 private:
  Result<void> Carry(cache::CacheObject& object, InodeId carrier);

  cache::BlockCache& cache_;
  const metadata::View& view_;
  const Confirm confirm_;
  const OnCarried on_carried_;
};

}  // namespace quadfs::fs
