#include "metadata/ops/ops.h"
#include "metadata/permission.h"

namespace quadfs::metadata {
namespace {

constexpr size_t kMaxXattrListBytes = 65536;  // XATTR_LIST_MAX: what listxattr(2) can return.

Result<void> CheckMayChange(const Attributes& attributes, const Operation& op) {
  const std::string& name = op.xattr_name;
  if (name.size() > kMaxXattrNameBytes) {
    return Error(ErrorCode::kRange, "attribute name is longer than 255 bytes");
  }
  if (name.find('\0') != std::string::npos) {
    return Error(ErrorCode::kInvalidArgument, "attribute name contains a NUL");
  }
  const bool root = op.credentials.uid == 0;
  for (const std::string_view space : {"user.", "trusted.", "security."}) {
    if (!name.starts_with(space)) continue;
    if (name.size() == space.size()) {
      return Error(ErrorCode::kInvalidArgument, "attribute name ends after its namespace");
    }
    if (space != "user.") {
      if (root) return {};
      return Error(ErrorCode::kPermission, "only root changes attributes of this namespace");
    }
    if (attributes.type != FileType::kRegular && attributes.type != FileType::kDirectory) {
      return Error(ErrorCode::kPermission, "only files and directories have user attributes");
    }
    if (attributes.type == FileType::kDirectory && (attributes.mode & kStickyBit) != 0 &&
        !IsOwner(attributes, op.credentials)) {
      return Error(ErrorCode::kPermission, "the directory is sticky and another's");
    }
    if (!MayAccess(attributes, op.credentials, kMayWrite)) {
      return Error(ErrorCode::kAccess, "no write permission on the file");
    }
    return {};
  }
  return Error(ErrorCode::kNotSupported, "attributes of this namespace are not kept");
}

struct Names {
  size_t count = 0;
  size_t bytes = 0;
};

Result<Names> CountNames(const TreeEdit& tree, InodeId inode) {
  Names names;
  QUADFS_TRY(tree.ScanPrefix(XattrPrefix(inode), {}, [&](std::string_view key, std::string_view) {
    ++names.count;
    names.bytes += key.size() - 8;  // Family and inode off, the NUL of the list on.
    return true;
  }));
  return names;
}

}  // namespace

Result<OpResult> ExecuteSetXattr(TreeEdit& tree, const Operation& op) {
  Attributes attributes = QUADFS_TRY(ReadInode(tree, op.inode));
  if ((op.xattr_flags & ~(kXattrCreate | kXattrReplace)) != 0) {
    return Error(ErrorCode::kInvalidArgument, "no such flag of setxattr");
  }
  QUADFS_TRY(CheckMayChange(attributes, op));
  if (op.xattr_value.size() > kMaxXattrValueBytes) {
    return Error(ErrorCode::kTooLarge, "attribute value is longer than 65536 bytes");
  }
  const RowKey key = XattrKey(op.inode, op.xattr_name);
  const bool exists = QUADFS_TRY(tree.Read(key)).has_value();
  if (exists && (op.xattr_flags & kXattrCreate) != 0) {
    return Error(ErrorCode::kExists, "the attribute exists");
  }
  if (!exists && (op.xattr_flags & kXattrReplace) != 0) {
    return Error(ErrorCode::kNoAttribute, "no such extended attribute");
  }
  if (!exists) {
    const Names names = QUADFS_TRY(CountNames(tree, op.inode));
    if (names.bytes + op.xattr_name.size() + 1 > kMaxXattrListBytes) {
      return Error(ErrorCode::kNoSpace, "the inode has no room for more attribute names");
    }
  }
  tree.Set(key, EncodeXattr(op.xattr_value));
  attributes.has_xattr = true;
  attributes.ctime_ns = tree.Time(attributes.ctime_ns);
  tree.PutInode(attributes);
  OpResult result;
  result.attributes = std::move(attributes);
  return result;
}

Result<OpResult> ExecuteRemoveXattr(TreeEdit& tree, const Operation& op) {
  Attributes attributes = QUADFS_TRY(ReadInode(tree, op.inode));
  QUADFS_TRY(CheckMayChange(attributes, op));
  const RowKey key = XattrKey(op.inode, op.xattr_name);
  if (!QUADFS_TRY(tree.Read(key))) {
    return Error(ErrorCode::kNoAttribute, "no such extended attribute");
  }
  tree.Set(key, std::nullopt);
  const Names left = QUADFS_TRY(CountNames(tree, op.inode));
  attributes.has_xattr = left.count > 0;
  attributes.ctime_ns = tree.Time(attributes.ctime_ns);
  tree.PutInode(attributes);
  OpResult result;
  result.attributes = std::move(attributes);
  return result;
}

}  // namespace quadfs::metadata
