#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fs/data/block_source.h"

namespace quadfs::fs {

/// Objects asked for in one bundle at most.
inline constexpr size_t kMaxBundleObjects = 4096;

/// The answer of POST /v1/bundle: per object inode 8, generation 8, error code 1 (0: none), length
/// 4, all big-endian, then its bytes, or the error's message.
void AppendBundleItem(std::string& out, const ObjectId& object,
                      const Result<std::vector<std::byte>>& content);

/// Cuts such an answer into objects, whatever its pieces. Threads: one.
class BundleReader {
 public:
  explicit BundleReader(BlockSource::ObjectSink sink) : sink_(std::move(sink)) {}
  /// Errors: kCorruption (a length above its bound), and those of the sink.
  Result<void> Feed(std::span<const std::byte> bytes);
  /// Errors: kUnavailable (it ended inside an object).
  Result<void> Finish() const;

 private:
  static constexpr size_t kHeaderBytes = 21;
  const BlockSource::ObjectSink sink_;
  std::vector<std::byte> buffer_;
};

}  // namespace quadfs::fs
