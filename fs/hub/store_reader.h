#pragma once

#include "cache/tree_store.h"
#include "fs/data/uploader.h"
#include "fs/data/want_server.h"
#include "fs/hub/object_reader.h"
#include "metadata/view.h"

namespace quadfs::fs {

/// A branch's store as what is passed on to main, and what main's wants are answered from (there,
/// what the store lacks is first got from the campus's own nodes).
/// Threads: every method may be called concurrently. Lifetime: its parts outlive it.
class StoreReader final : public UploadReader, public WantReader {
 public:
  /// `local`: reads from this campus only.
  StoreReader(cache::TreeStore& store, const metadata::View& view, ObjectReader& local)
      : store_(store), view_(view), local_(local) {}

  Need NeedOf(const ObjectId& object) override;
  uint64_t SizeOf(const ObjectId& object) override;
  Result<cache::Manifest> ManifestOf(const ObjectId& object) override {
    return store_.ReadManifest(object);
  }
  Result<std::vector<std::byte>> ReadBlock(const ObjectId& object, uint64_t index) override {
    return store_.ReadBlock(object, index);
  }
  void Saved(const ObjectId&) override {}    // The store keeps its copy.
  void Dropped(const ObjectId&) override {}  // The mirror removes what is gone.

  Result<cache::Manifest> WantedManifest(const ObjectId& object, Deadline deadline) override;
  Result<std::vector<std::byte>> WantedBlock(const ObjectId& object, uint64_t index,
                                             Deadline deadline) override;

 private:
  cache::TreeStore& store_;
  const metadata::View& view_;
  ObjectReader& local_;
};

}  // namespace quadfs::fs
