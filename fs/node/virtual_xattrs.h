#pragma once

#include <string>
#include <string_view>

#include "fs/node/mount_core.h"

namespace quadfs::fs {

/// Attributes that quadfs computes: readable by name, never listed, so that cp -a and rsync -X do
/// not copy them. user.quad.locations, .campuses, .state, .version, .checksum, .lag.
bool IsVirtualXattr(std::string_view name);
/// Errors: kNoAttribute (this inode has no such thing).
Result<std::string> VirtualXattr(MountCore& core, const metadata::Attributes& row, uint64_t nodeid,
                                 std::string_view name);

}  // namespace quadfs::fs
