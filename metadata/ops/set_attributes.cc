#include "metadata/ops/ops.h"
#include "metadata/permission.h"

namespace quadfs::metadata {
namespace {

constexpr uint32_t kAllBits =
    kSetMode | kSetUid | kSetGid | kSetAtime | kSetMtime | kSetCtime | kSetTimesToNow;

Result<void> CheckOwnership(const Attributes& attributes, const Operation& op) {
  const bool root = op.credentials.uid == 0;
  const bool owner = IsOwner(attributes, op.credentials);
  if ((op.set_mask & kSetUid) != 0 && !root && (!owner || op.uid != attributes.uid)) {
    return Error(ErrorCode::kPermission, "only root changes an owner");
  }
  if ((op.set_mask & kSetGid) != 0 && !root &&
      (!owner || (op.gid != attributes.gid && !IsInGroup(op.credentials, op.gid)))) {
    return Error(ErrorCode::kPermission, "only its owner changes a group, to one of his own");
  }
  if ((op.set_mask & kSetMode) != 0) {
    if (attributes.type == FileType::kSymlink) {
      return Error(ErrorCode::kNotSupported, "a symlink has no mode of its own");
    }
    if (!owner) return Error(ErrorCode::kPermission, "only its owner changes a mode");
  }
  if ((op.set_mask & (kSetAtime | kSetMtime)) != 0 && !owner) {
    if ((op.set_mask & kSetTimesToNow) == 0) {
      return Error(ErrorCode::kPermission, "only its owner chooses a file's times");
    }
    if (!MayAccess(attributes, op.credentials, kMayWrite)) {
      return Error(ErrorCode::kAccess, "no write permission on the file");
    }
  }
  return {};
}

}  // namespace

void ApplyAttributes(Attributes& attributes, const Operation& op) {
  const bool is_directory = attributes.type == FileType::kDirectory;
  if ((op.set_mask & kSetUid) != 0) attributes.uid = op.uid;
  if ((op.set_mask & kSetGid) != 0) attributes.gid = op.gid;
  if ((op.set_mask & (kSetUid | kSetGid)) != 0 && !is_directory) {
    attributes.mode = WithoutSetId(attributes.mode);
  }
  if ((op.set_mask & kSetMode) != 0) {
    attributes.mode = op.mode & 07777;
    if (op.credentials.uid != 0 && !IsInGroup(op.credentials, attributes.gid)) {
      attributes.mode &= ~kSetGidBit;
    }
  }
  const bool now = (op.set_mask & kSetTimesToNow) != 0;
  if ((op.set_mask & kSetAtime) != 0) attributes.atime_ns = now ? op.now_ns : op.atime_ns;
  if ((op.set_mask & kSetMtime) != 0) attributes.mtime_ns = now ? op.now_ns : op.mtime_ns;
}

Result<OpResult> ExecuteSetAttributes(TreeEdit& tree, const Operation& op) {
  if ((op.set_mask & ~kAllBits) != 0) {
    return Error(ErrorCode::kInvalidArgument, "set_mask has bits that mean nothing");
  }
  OpResult result;
  Attributes& attributes = result.attributes;
  attributes = QUADFS_TRY(ReadInode(tree, op.inode));
  QUADFS_TRY(CheckOwnership(attributes, op));
  constexpr uint32_t kReal = kAllBits & ~(kSetCtime | kSetTimesToNow);
  if ((op.set_mask & kReal) == 0) return result;
  ApplyAttributes(attributes, op);
  if ((op.set_mask & (kSetUid | kSetGid)) != 0 && attributes.type != FileType::kDirectory) {
    QUADFS_TRY(tree.DropCapability(attributes));
  }
  attributes.ctime_ns = tree.Time(attributes.ctime_ns);
  tree.PutInode(attributes);
  return result;
}

}  // namespace quadfs::metadata
