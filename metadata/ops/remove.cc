#include "metadata/ops/ops.h"
#include "metadata/permission.h"

namespace quadfs::metadata {
namespace {

// What unlink and rmdir have in common: the inode of a name that the caller may take away.
Result<Attributes> FindVictim(TreeEdit& tree, const Operation& op) {
  QUADFS_TRY(CheckName(op.name));
  const Attributes parent = QUADFS_TRY(ReadDirectory(tree, op.parent));
  QUADFS_TRY(CheckSearch(parent, op.credentials));
  auto victim = QUADFS_TRY(FindName(tree, op.parent, op.name));
  if (!victim) return Error(ErrorCode::kNotFound, "no such name");
  QUADFS_TRY(CheckMayRemove(parent, *victim, op.credentials));
  return std::move(*victim);
}

}  // namespace

Result<OpResult> ExecuteUnlink(TreeEdit& tree, const Operation& op) {
  const Attributes victim = QUADFS_TRY(FindVictim(tree, op));
  if (victim.type == FileType::kDirectory) {
    return Error(ErrorCode::kIsDirectory, "unlink of a directory");
  }
  OpResult result;
  result.attributes = QUADFS_TRY(tree.RemoveName(victim.inode, op.parent, op.name));
  return result;
}

Result<OpResult> ExecuteRmdir(TreeEdit& tree, const Operation& op) {
  const Attributes victim = QUADFS_TRY(FindVictim(tree, op));
  if (victim.type != FileType::kDirectory) {
    return Error(ErrorCode::kNotDirectory, "rmdir of something else than a directory");
  }
  if (QUADFS_TRY(HasEntries(tree, victim.inode))) {
    return Error(ErrorCode::kNotEmpty, "the directory has entries");
  }
  OpResult result;
  result.attributes = QUADFS_TRY(tree.RemoveName(victim.inode, op.parent, op.name));
  return result;
}

}  // namespace quadfs::metadata
