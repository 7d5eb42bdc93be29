#pragma once

#include <span>
#include <vector>

#include "fs/node/mount_core.h"
#include "fs/node/patience.h"

namespace quadfs::fs {

/// Bytes that can be read now.
struct ReadableRange {
  uint64_t length = 0;            ///< 0: at or past the end.
  int fd = -1;                    ///< At the same offset as asked for.
  cache::ObjectRef keep;          ///< The descriptor's owner.
  std::vector<std::byte> around;  ///< The bytes themselves, where the cache has no room for them.
};
/// Fetches what is missing of [offset, offset + size). Errors: those of the fetcher, kIo.
Result<ReadableRange> PrepareRead(MountCore& core, OpenFile& file, uint64_t offset, uint64_t size,
                                  const Patience& patience);

/// Writes into a file that is dirty, fetching what the write covers only in part.
/// Errors: those of the fetcher, kNoSpace, kTooLarge, kIo.
Result<void> WriteRange(MountCore& core, OpenFile& file, uint64_t offset,
                        std::span<const std::byte> bytes, const Patience& patience);

/// The file's size as its handles see it.
uint64_t SizeOf(const OpenFile& file);

}  // namespace quadfs::fs
