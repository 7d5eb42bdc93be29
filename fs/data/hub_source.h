#pragma once

#include <string>

#include "fs/data/block_source.h"
#include "transport/client.h"

namespace quadfs::fs {

/// "/v1/data/<object>?first=…&count=…".
std::string DataTarget(const ObjectId& object, uint64_t first, uint64_t count);

/// Blocks from a hub over HTTP. Threads and errors: as BlockSource.
/// Lifetime: the client outlives it.
class HubSource final : public BlockSource {
 public:
  explicit HubSource(transport::Client& client) : client_(client) {}

  Result<cache::Manifest> FetchManifest(const ObjectId& object, Deadline deadline) override;
  Result<void> FetchBlocks(const ObjectId& object, uint64_t first, uint64_t count,
                           Deadline deadline, const BlockSink& sink) override;
  Result<void> FetchWithManifest(const ObjectId& object, uint64_t first, uint64_t count,
                                 Deadline deadline, const ManifestSink& manifest_sink,
                                 const BlockSink& sink) override;
  Result<void> FetchBundle(const std::vector<ObjectId>& objects, Deadline deadline,
                           const ObjectSink& sink) override;

 private:
  Result<void> Fetch(const std::string& target, uint64_t first, uint64_t count, Deadline deadline,
                     const ManifestSink* manifest_sink, const BlockSink& sink);
  transport::Client& client_;
};

}  // namespace quadfs::fs
