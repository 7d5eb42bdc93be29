#include "metadata/ops/ops.h"
#include "metadata/permission.h"

namespace quadfs::metadata {

Result<OpResult> ExecuteLink(TreeEdit& tree, const Operation& op) {
  QUADFS_TRY(CheckName(op.name));
  const Attributes parent = QUADFS_TRY(ReadDirectory(tree, op.parent));
  QUADFS_TRY(CheckSearch(parent, op.credentials));
  const Attributes target = QUADFS_TRY(ReadInode(tree, op.inode));
  if (QUADFS_TRY(FindName(tree, op.parent, op.name))) {
    return Error(ErrorCode::kExists, "the name is taken");
  }
  QUADFS_TRY(CheckNewName(op.parent, op.name));
  QUADFS_TRY(CheckMayAdd(parent, op.credentials));
  if (target.type == FileType::kDirectory) {
    return Error(ErrorCode::kPermission, "a directory has one name only");
  }
  if (target.nlink >= kMaxLinks) {
    return Error(ErrorCode::kTooManyLinks, "the file has as many names as it may have");
  }
  OpResult result;
  result.attributes = QUADFS_TRY(tree.AddName(op.inode, op.parent, op.name));
  return result;
}

}  // namespace quadfs::metadata
