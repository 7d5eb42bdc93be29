#include "metadata/execute.h"

#include "metadata/ops/ops.h"

namespace quadfs::metadata {
namespace {

Result<OpResult> Dispatch(TreeEdit& tree, const Operation& op, CampusId executing) {
  switch (op.kind) {
    case OpKind::kCreate: return ExecuteCreate(tree, op);
    case OpKind::kLink: return ExecuteLink(tree, op);
    case OpKind::kUnlink: return ExecuteUnlink(tree, op);
    case OpKind::kRmdir: return ExecuteRmdir(tree, op);
    case OpKind::kRename: return ExecuteRename(tree, op);
    case OpKind::kSetAttributes: return ExecuteSetAttributes(tree, op);
    case OpKind::kSetXattr: return ExecuteSetXattr(tree, op);
    case OpKind::kRemoveXattr: return ExecuteRemoveXattr(tree, op);
    case OpKind::kPublish: return ExecutePublish(tree, op, executing);
    case OpKind::kLocate: return ExecuteLocate(tree, op);
    case OpKind::kMember: return ExecuteMember(tree, op);
  }
  return Error(ErrorCode::kInvalidArgument, "no such operation");
}

}  // namespace

Result<Effects> Execute(const RowReader& state, const Operation& operation, CampusId executing) {
  TreeEdit tree(state, operation.now_ns);
  OpResult result = QUADFS_TRY(Dispatch(tree, operation, executing));
  return tree.Take(std::move(result));
}

std::vector<RowChange> EmptyTree(int64_t now_ns) {
  Attributes root;
  root.inode = kRootInode;
  root.type = FileType::kDirectory;
  root.mode = 0755;
  root.nlink = 2;
  root.atime_ns = root.mtime_ns = root.ctime_ns = root.birth_ns = now_ns;
  return {{InodeKey(kRootInode), EncodeInode(root)}};
}

}  // namespace quadfs::metadata
