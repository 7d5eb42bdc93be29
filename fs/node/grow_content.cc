#include "fs/node/grow_content.h"

#include <vector>

#include "fs/node/invalidator.h"
#include "transport/base/checksum.h"

namespace quadfs::fs {
namespace {

// Rows of the LocalStore: while one is there, the dirty object of that inode is a copy being grown,
// not a program's change, and must not be published.
constexpr char kFamily[] = "node";

std::string GrowKey(InodeId inode) { return "grow/" + std::to_string(inode.value); }

/// The blocks from the first that is not wholly in `old`, if `newer` begins as `old` does.
Result<std::vector<std::vector<std::byte>>> FetchTail(MountCore& core,
                                                      const cache::ObjectRef& newer,
                                                      const cache::Manifest& old,
                                                      Deadline deadline) {
  const Error other(ErrorCode::kNotSupported, "the newer version is no append");
  const uint64_t first = old.size_bytes() / kBlockBytes;
  const uint64_t count = cache::BlockCount(newer->size_bytes()) - first;
  QUADFS_TRY(core.data.fetcher().Ensure(newer, first, count, Fetcher::Priority::kReader, deadline));
  const auto manifest = newer->manifest();
  if (manifest == nullptr) return other;
  for (uint64_t i = 0; i < first; ++i) {
    if (manifest->block(i) != old.block(i)) return other;
  }
  std::vector<std::vector<std::byte>> tail;
  for (uint64_t i = first; i < first + count; ++i) {
    tail.push_back(QUADFS_TRY(newer->ReadBlock(i)));
  }
  const uint64_t rest = old.size_bytes() % kBlockBytes;
  if (rest != 0 && ChecksumOf(std::span(tail.front()).first(rest)) != old.block(first)) {
    return other;
  }
  return tail;
}

}  // namespace

Result<void> GrowContent(MountCore& core, OpenFile& file, const metadata::Attributes& row,
                         Deadline deadline) {
  const auto old = file.object ? file.object->manifest() : nullptr;
  if (file.dirty || old == nullptr || !file.object->complete() || file.object->unsaved() ||
      row.size <= old->size_bytes() || row.size - old->size_bytes() > kGrowBytes) {
    return Error(ErrorCode::kNotSupported, "not a small append to a whole copy");
  }
  const cache::ObjectRef newer =
      QUADFS_TRY(core.cache.FindOrCreate({row.inode, row.generation}, row.size, row.root));
  const auto tail = QUADFS_TRY(FetchTail(core, newer, *old, deadline));
  const cache::Manifest manifest = *newer->manifest();
  QUADFS_TRY(core.local.Put(kFamily, GrowKey(file.inode), "1"));
  QUADFS_TRY(file.object->MakeDirty());
  uint64_t offset = old->size_bytes();
  for (const auto& block : tail) {
    const auto fresh = std::span(block).subspan(offset % kBlockBytes);
    QUADFS_TRY(file.object->Write(offset, fresh));
    offset += fresh.size();
  }
  newer->Discard();
  QUADFS_TRY(file.object->Seal(row.generation, manifest, /*still_open_for_write=*/false));
  QUADFS_TRY(file.object->MarkSaved());  // It is a copy of what others hold.
  QUADFS_TRY(core.local.Erase(kFamily, GrowKey(file.inode)));
  {
    const MutexLock lock(file.mutex);
    file.version = row;
  }
  core.invalidator->Grown(file.nodeid, old->size_bytes());
  return {};
}

bool DropHalfGrown(MountCore& core, cache::CacheObject& object) {
  const InodeId inode = object.id().inode;
  if (!object.dirty() || !core.local.Get(kFamily, GrowKey(inode)).ok()) return false;
  object.Discard();
  (void)core.local.Erase(kFamily, GrowKey(inode));
  return true;
}

}  // namespace quadfs::fs
