#include "metadata/ops/ops.h"
#include "metadata/permission.h"

namespace quadfs::metadata {
namespace {

// Both ends of a rename, as found.
struct Ends {
  Attributes old_parent;
  Attributes new_parent;
  Attributes source;
  std::optional<Attributes> target;
  bool exchange = false;
  bool across = false;  // From one directory to another.
};

bool IsDirectory(const Attributes& attributes) { return attributes.type == FileType::kDirectory; }

Result<Ends> FindEnds(TreeEdit& tree, const Operation& op) {
  if ((op.rename_flags & ~(kRenameNoReplace | kRenameExchange)) != 0 ||
      op.rename_flags == (kRenameNoReplace | kRenameExchange)) {
    return Error(ErrorCode::kInvalidArgument, "these flags of rename do not go together");
  }
  QUADFS_TRY(CheckName(op.name));
  QUADFS_TRY(CheckName(op.new_name));
  Ends ends;
  ends.exchange = op.rename_flags == kRenameExchange;
  ends.across = op.parent != op.new_parent;
  ends.old_parent = QUADFS_TRY(ReadDirectory(tree, op.parent));
  ends.new_parent = QUADFS_TRY(ReadDirectory(tree, op.new_parent));
  QUADFS_TRY(CheckSearch(ends.old_parent, op.credentials));
  QUADFS_TRY(CheckSearch(ends.new_parent, op.credentials));
  auto source = QUADFS_TRY(FindName(tree, op.parent, op.name));
  if (!source) return Error(ErrorCode::kNotFound, "no such name");
  ends.source = std::move(*source);
  ends.target = QUADFS_TRY(FindName(tree, op.new_parent, op.new_name));
  if (ends.target && op.rename_flags == kRenameNoReplace) {
    return Error(ErrorCode::kExists, "the new name is taken");
  }
  if (!ends.target && ends.exchange) return Error(ErrorCode::kNotFound, "no such new name");
  return ends;
}

// No directory may come to be inside itself.
Result<void> CheckLoop(TreeEdit& tree, const Operation& op, const Ends& ends) {
  if (!ends.across) return {};
  if (IsDirectory(ends.source) &&
      QUADFS_TRY(IsWithin(tree.unseen(), op.new_parent, ends.source.inode))) {
    return Error(ErrorCode::kInvalidArgument, "a directory cannot be moved into itself");
  }
  if (ends.target && IsDirectory(*ends.target) &&
      QUADFS_TRY(IsWithin(tree.unseen(), op.parent, ends.target->inode))) {
    return ends.exchange
               ? Error(ErrorCode::kInvalidArgument, "a directory cannot be moved into itself")
               : Error(ErrorCode::kNotEmpty, "the target holds what is moved");
  }
  return {};
}

Result<void> CheckTarget(TreeEdit& tree, const Operation& op, const Ends& ends) {
  if (!ends.target) {
    QUADFS_TRY(CheckNewName(op.new_parent, op.new_name));
    return CheckMayAdd(ends.new_parent, op.credentials);
  }
  QUADFS_TRY(CheckMayRemove(ends.new_parent, *ends.target, op.credentials));
  if (ends.exchange) return {};
  if (IsDirectory(ends.source) && !IsDirectory(*ends.target)) {
    return Error(ErrorCode::kNotDirectory, "a directory cannot replace something else");
  }
  if (!IsDirectory(ends.source) && IsDirectory(*ends.target)) {
    return Error(ErrorCode::kIsDirectory, "a directory is replaced by directories only");
  }
  if (IsDirectory(*ends.target) && QUADFS_TRY(HasEntries(tree, ends.target->inode))) {
    return Error(ErrorCode::kNotEmpty, "the directory to replace has entries");
  }
  return {};
}

// A directory that changes its parent is written to: its ".." changes.
Result<void> CheckParentChange(const Operation& op, const Attributes& moved) {
  if (!IsDirectory(moved) || MayAccess(moved, op.credentials, kMayWrite)) return {};
  return Error(ErrorCode::kAccess, "no write permission on the directory that is moved");
}

}  // namespace

Result<OpResult> ExecuteRename(TreeEdit& tree, const Operation& op) {
  const Ends ends = QUADFS_TRY(FindEnds(tree, op));
  OpResult result;
  result.attributes = ends.source;
  if (ends.target && ends.target->inode == ends.source.inode) return result;  // As POSIX: nothing.
  QUADFS_TRY(CheckLoop(tree, op, ends));
  QUADFS_TRY(CheckMayRemove(ends.old_parent, ends.source, op.credentials));
  QUADFS_TRY(CheckTarget(tree, op, ends));
  if (ends.across) {
    QUADFS_TRY(CheckParentChange(op, ends.source));
    if (ends.exchange) QUADFS_TRY(CheckParentChange(op, *ends.target));
  }
  const Place from(op.parent, op.name);
  const Place to(op.new_parent, op.new_name);
  if (ends.exchange) {
    QUADFS_TRY(tree.ExchangeNames(ends.source.inode, from, ends.target->inode, to));
    result.attributes = QUADFS_TRY(ReadInode(tree, ends.source.inode));
    result.replaced = QUADFS_TRY(ReadInode(tree, ends.target->inode));
    return result;
  }
  if (ends.target) {
    result.replaced = QUADFS_TRY(tree.RemoveName(ends.target->inode, to.first, to.second));
  }
  result.attributes = QUADFS_TRY(tree.MoveName(ends.source.inode, from, to));
  return result;
}

}  // namespace quadfs::metadata
