#pragma once

#include "metadata/view.h"

namespace quadfs::fs {

/// The attribute that keeps a directory's subtree out of main's archive, if it says "off".
inline constexpr char kArchivePolicy[] = "user.quad.policy.archive";

/// Whether what a branch stores is passed on to main: neither the inode nor a directory above it
/// says "off". The nearest one that says anything decides.
bool IsArchived(const metadata::View& view, InodeId inode);

}  // namespace quadfs::fs
