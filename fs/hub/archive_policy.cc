#include "fs/hub/archive_policy.h"

namespace quadfs::fs {

bool IsArchived(const metadata::View& view, InodeId inode) {
  constexpr int kMaxDepth = 4096;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const auto attributes = view.Get(inode);
    if (!attributes.ok()) return true;
    if (attributes->has_xattr) {
      if (const auto policy = view.GetXattr(inode, kArchivePolicy); policy.ok()) {
        return *policy != "off";
      }
    }
    if (inode == kRootInode || !attributes->parent) return true;
    inode = attributes->parent;
  }
  return true;
}

}  // namespace quadfs::fs
