#pragma once

#include <sys/stat.h>

#include <compare>
#include <cstdint>
#include <span>

#include "cache/row_codec.h"
#include "transport/base/result.h"

namespace quadfs::cache {

/// Reads until `buffer` is full or the file ends; returns the bytes read. Errors: kIo.
Result<uint64_t> ReadAt(int fd, std::span<std::byte> buffer, uint64_t offset);
/// Writes all of it. Errors: kNoSpace, kIo.
Result<void> WriteAt(int fd, std::span<const std::byte> bytes, uint64_t offset);
/// True if every byte is zero; ends at the first that is not.
bool AllZero(std::span<const std::byte> bytes);
/// Makes [offset, offset + length) a hole that reads zeros (writes zeros where there are no holes);
/// the file's size stays.
Result<void> PunchHole(int fd, uint64_t offset, uint64_t length);

/// What stat tells about a file's content without reading it: if it is the same, nobody wrote.
struct StatSignature {
  uint64_t size = 0, mtime_ns = 0, ctime_ns = 0, inode = 0;
  auto operator<=>(const StatSignature&) const = default;

  static StatSignature Of(const struct stat& status);
  /// All zero (equal to no file's) if fstat fails.
  static StatSignature OfFile(int fd);
  void Encode(RowWriter& out) const;
  static StatSignature Decode(RowReader& in);
};

}  // namespace quadfs::cache
