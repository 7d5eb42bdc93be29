#include "fs/node/range_io.h"

#include <algorithm>

#include "cache/manifest.h"

namespace quadfs::fs {
namespace {

struct Content {
  cache::ObjectRef object;
  int fd = -1;
  bool dirty = false;
  uint64_t size = 0;
  uint64_t version_size = 0;
};

Content ContentOf(const OpenFile& file) {
  const MutexLock lock(file.mutex);
  Content content;
  content.object = file.object;
  content.fd = file.ContentFd();
  content.dirty = file.dirty;
  content.version_size = file.version.size;
  content.size = file.dirty && file.object ? file.object->size_bytes()
                 : file.ContentFd() >= 0   ? file.version.size
                                           : 0;
  return content;
}

/// Reads past the cache, checked, when the disk has no room.
Result<std::vector<std::byte>> ReadAround(MountCore& core, const cache::ObjectRef& object,
                                          uint64_t offset, uint64_t length,
                                          const Patience& patience) {
  std::vector<std::byte> bytes;
  bytes.reserve(length);
  while (bytes.size() < length) {
    const uint64_t at = offset + bytes.size();
    const auto block = QUADFS_TRY(patience.Try([&](Deadline deadline) {
      return core.data.fetcher().ReadAround(object, at / kBlockBytes, deadline);
    }));
    const uint64_t begin = at % kBlockBytes;
    if (begin >= block.size()) break;
    const uint64_t count = std::min<uint64_t>(block.size() - begin, length - bytes.size());
    bytes.insert(bytes.end(), block.begin() + static_cast<ptrdiff_t>(begin),
                 block.begin() + static_cast<ptrdiff_t>(begin + count));
  }
  return bytes;
}

}  // namespace

uint64_t SizeOf(const OpenFile& file) { return ContentOf(file).size; }

Result<ReadableRange> PrepareRead(MountCore& core, OpenFile& file, uint64_t offset, uint64_t size,
                                  const Patience& patience) {
  const Content content = ContentOf(file);
  ReadableRange range;
  if (offset >= content.size) return range;
  range.length = std::min(size, content.size - offset);
  range.keep = content.object;
  if (content.object && !content.object->complete()) {
    Fetcher& fetcher = core.data.fetcher();
    const uint64_t first = offset / kBlockBytes;
    const uint64_t end = std::min((offset + range.length - 1) / kBlockBytes + 1,
                                  cache::BlockCount(content.version_size));
    if (first < end) {
      fetcher.NoteRead(content.object, offset, range.length);
      auto there = patience.Try([&](Deadline deadline) {
        return fetcher.Ensure(content.object, first, end - first, Fetcher::Priority::kReader,
                              deadline);
      });
      if (!there.ok() && there.error().code() == ErrorCode::kNoSpace && !content.dirty) {
        range.around = QUADFS_TRY(ReadAround(core, content.object, offset, range.length, patience));
        return range;
      }
      if (!there.ok()) return std::move(there).error();
    }
  }
  range.fd = content.fd;
  if (range.fd < 0) return Error(ErrorCode::kIo, "the cached file cannot be opened");
  return range;
}

Result<void> WriteRange(MountCore& core, OpenFile& file, uint64_t offset,
                        std::span<const std::byte> bytes, const Patience& patience) {
  const Content content = ContentOf(file);
  if (!content.object || !content.dirty) {
    return Error(ErrorCode::kIo, "a write into a file that is not open for writing");
  }
  // At most its first and its last block are covered in part.
  for (int attempt = 0; attempt < 3; ++attempt) {
    auto written = content.object->Write(offset, bytes);
    if (written.ok() || written.error().code() != ErrorCode::kNotFound) return written;
    for (const uint64_t at : {offset, offset + bytes.size() - 1}) {
      const uint64_t block = at / kBlockBytes;
      if (block >= cache::BlockCount(content.version_size)) continue;
      QUADFS_TRY(patience.Try([&](Deadline deadline) {
        return core.data.fetcher().Ensure(content.object, block, 1, Fetcher::Priority::kReader,
                                          deadline);
      }));
    }
  }
  return Error(ErrorCode::kIo, "blocks of the old version vanish as fast as they come");
}

}  // namespace quadfs::fs
