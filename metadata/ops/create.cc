#include "metadata/ops/ops.h"
#include "metadata/permission.h"

namespace quadfs::metadata {
namespace {

Result<void> CheckType(const Operation& op) {
  switch (op.type) {
    case FileType::kSymlink:
      if (op.symlink_target.empty()) {
        return Error(ErrorCode::kNotFound, "a symlink needs a target");
      }
      if (op.symlink_target.size() > kMaxSymlinkBytes) {
        return Error(ErrorCode::kNameTooLong, "symlink target is longer than 4095 bytes");
      }
      if (op.symlink_target.find('\0') != std::string::npos) {
        return Error(ErrorCode::kInvalidArgument, "symlink target contains a NUL");
      }
      return {};
    case FileType::kCharacterDevice:
    case FileType::kBlockDevice:
      if (op.credentials.uid != 0) {
        return Error(ErrorCode::kPermission, "only root makes device nodes");
      }
      return {};
    case FileType::kRegular:
    case FileType::kDirectory:
    case FileType::kFifo:
    case FileType::kSocket: return {};
  }
  return Error(ErrorCode::kInvalidArgument, "no such file type");
}

}  // namespace

Attributes NewAttributes(const Attributes& parent, const Operation& op) {
  Attributes attributes;
  attributes.inode = op.inode;
  attributes.type = op.type;
  attributes.mode = op.type == FileType::kSymlink ? 0777 : op.mode & 07777;
  attributes.uid = op.credentials.uid;
  attributes.gid = op.credentials.gid;
  if ((parent.mode & kSetGidBit) != 0) {
    attributes.gid = parent.gid;
    constexpr uint32_t kRunsAsGroup = kSetGidBit | kGroupExecuteBit;
    if (op.type == FileType::kDirectory) {
      attributes.mode |= kSetGidBit;
    } else if ((attributes.mode & kRunsAsGroup) == kRunsAsGroup && op.credentials.uid != 0 &&
               !IsInGroup(op.credentials, parent.gid)) {
      attributes.mode &= ~kSetGidBit;
    }
  }
  if (op.type == FileType::kCharacterDevice || op.type == FileType::kBlockDevice) {
    attributes.rdev = op.rdev;
  }
  if (op.type == FileType::kSymlink) {
    attributes.symlink_target = op.symlink_target;
    attributes.size = op.symlink_target.size();
  }
  attributes.atime_ns = op.now_ns;
  attributes.mtime_ns = op.now_ns;
  attributes.ctime_ns = op.now_ns;
  attributes.birth_ns = op.now_ns;
  return attributes;
}

Result<OpResult> ExecuteCreate(TreeEdit& tree, const Operation& op) {
  QUADFS_TRY(CheckName(op.name));
  QUADFS_TRY(CheckType(op));
  const Attributes parent = QUADFS_TRY(ReadDirectory(tree, op.parent));
  QUADFS_TRY(CheckSearch(parent, op.credentials));
  if (QUADFS_TRY(FindName(tree, op.parent, op.name))) {
    return Error(ErrorCode::kExists, "the name is taken");
  }
  QUADFS_TRY(CheckNewName(op.parent, op.name));
  QUADFS_TRY(CheckMayAdd(parent, op.credentials));
  const bool used = QUADFS_TRY(tree.Read(InodeKey(op.inode))).has_value() ||
                    QUADFS_TRY(tree.Read(TombKey(op.inode))).has_value();
  if (!op.inode || used) {
    return Error(ErrorCode::kInvalidArgument, "a new inode needs a number that was never used");
  }
  OpResult result;
  result.attributes = QUADFS_TRY(tree.Create(NewAttributes(parent, op), op.parent, op.name));
  return result;
}

}  // namespace quadfs::metadata
