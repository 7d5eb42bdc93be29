#pragma once

#include <concepts>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "cache/manifest.h"
#include "fs/data/arriving_block.h"
#include "transport/base/clock.h"
#include "transport/base/ids.h"
#include "transport/base/result.h"

namespace quadfs::fs {

/// Takes the blocks of a fetch, one whole block at a time. An error ends the fetch.
class BlockSink {
 public:
  using Take = std::function<Result<void>(uint64_t index, std::span<const std::byte> block)>;
  using Begin = std::function<void(uint64_t index, ArrivingBlockRef block)>;

  template <typename F>
  requires std::convertible_to<F, Take> BlockSink(F take)
      : take_(std::move(take)) {}  // NOLINT: a lambda is a sink.
  /// `begin` is told of each block that comes in pieces when its first piece is here.
  BlockSink(Take take, Begin begin) : take_(std::move(take)), begin_(std::move(begin)) {}

  Result<void> operator()(uint64_t index, std::span<const std::byte> block) const {
    return take_(index, block);
  }
  void Begins(uint64_t index, const ArrivingBlockRef& block) const {
    if (begin_) begin_(index, block);
  }

 private:
  Take take_;
  Begin begin_;
};

/// Where blocks of object versions can be had from: at a node its hub; at a hub its store, its
/// cache, a node of the campus, main or another campus. Nothing it gives is trusted: the receiver
/// checks every block against the manifest, and the manifest against the root.
/// Threads: every method may be called concurrently.
/// Errors: kNotFound (nobody holds that version any more), kUnavailable, kTimedOut, kCorruption.
class BlockSource {
 public:
  /// Takes the manifest of the version asked for. An error ends the fetch.
  using ManifestSink = std::function<Result<void>(cache::Manifest manifest)>;
  /// Takes one whole small object (one block or empty).
  using ObjectSink = std::function<Result<void>(const ObjectId&, Result<std::vector<std::byte>>)>;

  virtual ~BlockSource() = default;
  virtual Result<cache::Manifest> FetchManifest(const ObjectId& object, Deadline deadline) = 0;
  /// Blocks [first, first + count) in order, on one connection.
  virtual Result<void> FetchBlocks(const ObjectId& object, uint64_t first, uint64_t count,
                                   Deadline deadline, const BlockSink& sink) = 0;
  /// The same with the manifest before the first block, in one round trip where the source can.
  virtual Result<void> FetchWithManifest(const ObjectId& object, uint64_t first, uint64_t count,
                                         Deadline deadline, const ManifestSink& manifest_sink,
                                         const BlockSink& sink) {
    if (auto taken = manifest_sink(QUADFS_TRY(FetchManifest(object, deadline))); !taken.ok()) {
      return taken;
    }
    return FetchBlocks(object, first, count, deadline, sink);
  }
  /// Objects of at most one block each in one request, in any order; what one fails with goes to
  /// the sink for that one.
  virtual Result<void> FetchBundle(const std::vector<ObjectId>& objects, Deadline deadline,
                                   const ObjectSink& sink) = 0;
};

}  // namespace quadfs::fs
