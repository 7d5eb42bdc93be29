#pragma once

#include "fs/node/mount_core.h"

namespace quadfs::fs {

/// Another node published `row` over the version that `file` was made from: brings the blocks of
/// the newer version that were not changed here into the local file. `ours`: the manifest of the
/// local file as it is. The caller holds the file's turn. Errors: those of the fetcher, kIo.
Result<void> MergeContent(MountCore& core, OpenFile& file, const metadata::Attributes& row,
                          const cache::Manifest& ours, Deadline deadline);

}  // namespace quadfs::fs
