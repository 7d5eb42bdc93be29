#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/base/checksum.h"
#include "transport/base/ids.h"
#include "transport/base/result.h"

namespace quadfs::cache {

/// Block checksums of one version: what its bytes must be. Immutable once filled.
class Manifest {
 public:
  Manifest() = default;
  /// `blocks`: one checksum for each started block of `size_bytes`.
  Manifest(uint64_t size_bytes, std::vector<Checksum> blocks);

  /// Of content in memory (any size).
  static Manifest Of(std::span<const std::byte> content);
  /// Reads `fd` from 0 to `size_bytes`. Errors: kIo; kStale if the file is shorter.
  static Result<Manifest> OfFile(int fd, uint64_t size_bytes);

  uint64_t size_bytes() const { return size_bytes_; }
  uint64_t block_count() const { return blocks_.size(); }
  const Checksum& block(uint64_t index) const { return blocks_[index]; }
  /// Length of block `index`: kBlockBytes, but for the last one.
  uint64_t BlockLength(uint64_t index) const;
  /// The content root that the inode row holds: over format version, size and block checksums.
  Checksum Root() const;
  bool Matches(uint64_t index, std::span<const std::byte> block) const;

  /// Stored and sent form: magic, version, size, checksums, CRC-32C. Errors of Parse: kCorruption,
  /// kInvalidArgument (newer version).
  std::string Serialize() const;
  static Result<Manifest> Parse(std::string_view bytes);

  bool operator==(const Manifest&) const = default;

 private:
  uint64_t size_bytes_ = 0;
  std::vector<Checksum> blocks_;
};

/// Number of blocks of a file of that size.
constexpr uint64_t BlockCount(uint64_t size_bytes) {
  return (size_bytes + kBlockBytes - 1) / kBlockBytes;
}

/// "0001000000000007.000000000000000a": how an object is named in paths and on the wire.
std::string ObjectName(const ObjectId& object);
Result<ObjectId> ParseObjectName(std::string_view name);

}  // namespace quadfs::cache
