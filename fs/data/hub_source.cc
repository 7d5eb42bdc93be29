#include "fs/data/hub_source.h"

#include <algorithm>

#include "fs/data/block_cutter.h"
#include "fs/data/bundle_stream.h"
#include "fs/data/proto/data.pb.h"

namespace quadfs::fs {

std::string DataTarget(const ObjectId& object, uint64_t first, uint64_t count) {
  return "/v1/data/" + cache::ObjectName(object) + "?first=" + std::to_string(first) +
         "&count=" + std::to_string(count);
}

Result<cache::Manifest> HubSource::FetchManifest(const ObjectId& object, Deadline deadline) {
  std::string bytes;
  auto answer = client_.Download(
      "GET", "/v1/manifest/" + cache::ObjectName(object), {}, deadline,
      [&](std::span<const std::byte> piece) -> Result<void> {
        if (bytes.size() + piece.size() > BlockCutter::kMaxManifestBytes) {
          return Error(ErrorCode::kCorruption, "a manifest above its bound was sent");
        }
        bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
        return {};
      });
  if (!answer.ok()) return std::move(answer).error();
  return cache::Manifest::Parse(bytes);
}

Result<void> HubSource::Fetch(const std::string& target, uint64_t first, uint64_t count,
                              Deadline deadline, const ManifestSink* manifest_sink,
                              const BlockSink& sink) {
  BlockCutter cutter(first, count, std::nullopt, sink);
  if (manifest_sink != nullptr) cutter.ExpectManifest(*manifest_sink);
  auto answer =
      client_.Download("GET", target, {}, deadline,
                       [&](std::span<const std::byte> piece) { return cutter.Feed(piece); });
  if (!answer.ok()) return std::move(answer).error();
  return cutter.Finish();
}

Result<void> HubSource::FetchBlocks(const ObjectId& object, uint64_t first, uint64_t count,
                                    Deadline deadline, const BlockSink& sink) {
  return Fetch(DataTarget(object, first, count), first, count, deadline, nullptr, sink);
}

Result<void> HubSource::FetchWithManifest(const ObjectId& object, uint64_t first, uint64_t count,
                                          Deadline deadline, const ManifestSink& manifest_sink,
                                          const BlockSink& sink) {
  return Fetch(DataTarget(object, first, count) + "&manifest=1", first, count, deadline,
               &manifest_sink, sink);
}

Result<void> HubSource::FetchBundle(const std::vector<ObjectId>& objects, Deadline deadline,
                                    const ObjectSink& sink) {
  for (size_t from = 0; from < objects.size(); from += kMaxBundleObjects) {
    data::BundleRequest request;
    const size_t upto = std::min(objects.size(), from + kMaxBundleObjects);
    for (size_t i = from; i < upto; ++i) {
      auto* item = request.add_objects();
      item->set_inode(objects[i].inode.value);
      item->set_generation(objects[i].generation.value);
    }
    BundleReader reader(sink);
    auto answer =
        client_.Download("POST", "/v1/bundle", request.SerializeAsString(), deadline,
                         [&](std::span<const std::byte> piece) { return reader.Feed(piece); });
    if (!answer.ok()) return std::move(answer).error();
    if (auto ended = reader.Finish(); !ended.ok()) return ended;
  }
  return {};
}

}  // namespace quadfs::fs
