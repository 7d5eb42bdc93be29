#pragma once

#include "fs/node/mount_core.h"
#include "fs/node/patience.h"

namespace quadfs::fs {

/// What an open, or a truncate without one, needs of a file's content.
struct ContentWish {
  bool write = false;
  bool truncate = false;  ///< To nothing, as by O_TRUNC.
  uint32_t uid = 0;       ///< Of the writer.
};

/// A file up to this size is fetched whole inside open, so that it is passed through from its first
/// byte: about what a campus's line brings in 100 ms.
inline constexpr uint64_t kCompleteInOpenBytes = uint64_t{8} << 20;

/// Brings the file's content into the state that the wish needs: finds or fetches the version that
/// `row` names, makes it dirty for a writer, truncates. The caller holds `file.turn`.
/// Errors: kStale (the handles that are open show an older version; its kernel inode has been
/// superseded: look up again), those of cache and fetcher.
Result<void> PrepareContent(MountCore& core, OpenFile& file, const metadata::Attributes& row,
                            const ContentWish& wish, const Patience& patience);

/// Sets the size of a file whose content was prepared for writing.
Result<void> TruncateContent(OpenFile& file, uint64_t size);

/// The dirty object found or left by an earlier run becomes the file's content.
void AdoptDirty(OpenFile& file, cache::ObjectRef object, const metadata::Attributes& row);

/// Makes sure that all bytes are here. Errors: those of the fetcher.
Result<void> CompleteContent(MountCore& core, OpenFile& file, const Patience& patience);

}  // namespace quadfs::fs
