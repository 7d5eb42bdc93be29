#pragma once

#include <sys/stat.h>

#include "fs/node/fuse_compat.h"
#include "fs/node/mount_core.h"

namespace quadfs::fs {

/// How long the kernel may keep what it was told: until the stream says otherwise.
inline constexpr double kKeepSeconds = 3600;

/// The row of an inode, or what an open file without a name keeps of it.
Result<metadata::Attributes> RowOf(MountCore& core, OpenFile& file);
Result<metadata::Attributes> RowOf(MountCore& core, uint64_t nodeid);

/// A mode as it is after someone without privilege wrote to the file: without set-user-id, and
/// without set-group-id where the group may execute it.
mode_t WithoutSetId(mode_t mode);

/// stat of a row, with what an open file knows better.
struct ShownStat {
  struct stat status {};
  bool keep = true;  ///< The kernel may keep it.
};
ShownStat StatOf(const metadata::Attributes& row, const FileOverlay* overlay);
/// stat of a nodeid. Errors: kNotFound, kIo.
Result<ShownStat> StatOf(MountCore& core, uint64_t nodeid);

/// The reply to a lookup of that row; counts one lookup, which the caller takes back if the kernel
/// does not get the reply.
fuse_entry_param EntryOf(MountCore& core, const metadata::Attributes& row);

}  // namespace quadfs::fs
