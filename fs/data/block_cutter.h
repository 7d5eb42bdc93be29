#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "fs/data/block_source.h"

namespace quadfs::fs {

/// Cuts the body of a data answer or upload into blocks: 4 bytes big-endian length and a manifest
/// if one was asked for, then blocks [first, first + count) one after another. It trusts no length:
/// memory is bounded by one manifest and one block. Threads: one.
class BlockCutter {
 public:
  /// Largest manifest taken: 1 Mi blocks, a file of 1 TiB.
  static constexpr size_t kMaxManifestBytes = size_t{17} << 20;

  /// `size_bytes`: of the whole object, if known; else only the last block asked for may be short.
  BlockCutter(uint64_t first, uint64_t count, std::optional<uint64_t> size_bytes, BlockSink sink)
      : next_(first), end_(first + count), size_bytes_(size_bytes), sink_(std::move(sink)) {}
  ~BlockCutter() { EndBlock(false); }
  BlockCutter(const BlockCutter&) = delete;
  BlockCutter& operator=(const BlockCutter&) = delete;
  /// Before the first Feed: the body begins with a manifest.
  void ExpectManifest(BlockSource::ManifestSink sink) { manifest_sink_ = std::move(sink); }

  /// Errors: kCorruption (more than was asked for, a bad manifest), and those of the sinks.
  Result<void> Feed(std::span<const std::byte> bytes);
  /// The body has ended. Errors: kUnavailable (blocks are missing).
  Result<void> Finish();
  /// Index of the first block not delivered yet.
  uint64_t next() const { return next_; }

 private:
  Result<std::span<const std::byte>> TakeManifest(std::span<const std::byte> bytes);
  size_t WantedBytes() const;
  Result<void> Deliver(std::span<const std::byte> block);
  Result<void> DeliverArrived();
  void EndBlock(bool good);

  uint64_t next_;
  const uint64_t end_;
  std::optional<uint64_t> size_bytes_;
  const BlockSink sink_;
  BlockSource::ManifestSink manifest_sink_;  ///< Empty: none expected, or taken.
  std::string manifest_;                     ///< With its 4 bytes of length.
  ArrivingBlockRef block_;                   ///< None: the next byte begins a block.
};

/// What ExpectManifest takes: length and manifest.
std::string ManifestPrefix(const cache::Manifest& manifest);

}  // namespace quadfs::fs
