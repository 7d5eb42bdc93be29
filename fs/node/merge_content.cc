#include "fs/node/merge_content.h"

#include <algorithm>

namespace quadfs::fs {

Result<void> MergeContent(MountCore& core, OpenFile& file, const metadata::Attributes& row,
                          const cache::Manifest& ours, Deadline deadline) {
  const cache::Manifest& base = *file.base_manifest;
  const cache::ObjectRef theirs =
      QUADFS_TRY(core.cache.FindOrCreate({row.inode, row.generation}, row.size, row.root));
  // Its manifest comes with the first block.
  if (!theirs->manifest()) {
    QUADFS_TRY(core.data.fetcher().Ensure(theirs, 0, 1, Fetcher::Priority::kReader, deadline));
  }
  const auto newer = theirs->manifest();
  if (newer == nullptr) return Error(ErrorCode::kUnavailable, "no manifest of the newer version");
  const auto same = [](const cache::Manifest& a, const cache::Manifest& b, uint64_t i) {
    return i < a.block_count() && i < b.block_count() && a.block(i) == b.block(i);
  };
  if (ours.size_bytes() == base.size_bytes() && row.size != base.size_bytes()) {
    QUADFS_TRY(file.object->NoteTruncate(row.size));
  }
  for (uint64_t i = 0; i < newer->block_count(); ++i) {
    const bool changed_here = i < ours.block_count() && !same(ours, base, i);
    if (changed_here || same(ours, *newer, i)) continue;
    if (i >= ours.block_count() && ours.size_bytes() != base.size_bytes()) break;  // Cut off here.
    QUADFS_TRY(core.data.fetcher().Ensure(theirs, i, 1, Fetcher::Priority::kReader, deadline));
    const auto block = QUADFS_TRY(theirs->ReadBlock(i));
    QUADFS_TRY(file.object->Write(i * kBlockBytes, block));
  }
  return {};
}

}  // namespace quadfs::fs
