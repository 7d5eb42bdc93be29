#pragma once

#include "fs/node/mount_core.h"

namespace quadfs::fs {

/// A file that is open here for reading got a newer version that only appends to the one that is
/// open: appends the same bytes to the local copy, so that its handles see the file grow (tail -f).
/// The caller holds the file's turn.
/// Errors: kNotSupported (not a small append, or not a whole copy: the handles keep their version),
/// those of cache and fetcher.
Result<void> GrowContent(MountCore& core, OpenFile& file, const metadata::Attributes& row,
                         Deadline deadline);

/// Forgets the object if a crash left it half-grown; true if it was so.
bool DropHalfGrown(MountCore& core, cache::CacheObject& object);

/// The largest append that is taken over in place.
inline constexpr uint64_t kGrowBytes = uint64_t{64} << 20;

}  // namespace quadfs::fs
