// Extended attributes: stored ones and those that quadfs computes.
#include <sys/xattr.h>

#include <cerrno>
#include <string>

#include "fs/node/request.h"
#include "fs/node/rows.h"
#include "fs/node/virtual_xattrs.h"

namespace quadfs::fs {
namespace {

using metadata::Attributes;

/// Names that can be kept; the kernel has checked who may use which.
bool IsKept(std::string_view name) {
  return name.starts_with("user.") || name.starts_with("trusted.") || name.starts_with("security.");
}

/// Replies with `value`, or with its size if the program asked for that.
void ReplyBytes(fuse_req_t request, const std::string& value, size_t size) {
  if (size == 0) return void(fuse_reply_xattr(request, value.size()));
  if (value.size() > size) return void(fuse_reply_err(request, ERANGE));
  fuse_reply_buf(request, value.data(), value.size());
}

Result<std::string> ValueOf(MountCore& core, uint64_t nodeid, std::string_view name) {
  const Attributes row = QUADFS_TRY(RowOf(core, nodeid));
  if (IsVirtualXattr(name)) return VirtualXattr(core, row, nodeid, name);
  if (row.nlink == 0) {
    if (const FileTable::Ref file = core.files.Find(nodeid)) {
      const MutexLock lock(file->mutex);
      const auto found = file->orphan_xattrs.find(std::string(name));
      if (found != file->orphan_xattrs.end()) return found->second;
    }
  }
  // Asked at every first write and exec: most files have none.
  if (!row.has_xattr) return Error(ErrorCode::kNoAttribute, "no extended attributes");
  return core.view().GetXattr(row.inode, name);
}

void GetXattr(fuse_req_t request, fuse_ino_t nodeid, const char* name, size_t size) {
  if (!IsKept(name)) return void(fuse_reply_err(request, EOPNOTSUPP));
  const auto value = ValueOf(CoreOf(request), nodeid, name);
  if (!value.ok()) return ReplyError(request, value.error());
  ReplyBytes(request, *value, size);
}

void ListXattr(fuse_req_t request, fuse_ino_t nodeid, size_t size) {
  MountCore& core = CoreOf(request);
  const auto row = RowOf(core, nodeid);
  if (!row.ok()) return ReplyError(request, row.error());
  std::string list;
  const bool privileged = fuse_req_ctx(request)->uid == 0;
  const auto add = [&](const std::string& name) {
    if (privileged || !name.starts_with("trusted.")) list.append(name).push_back('\0');
  };
  if (row->has_xattr) {
    const auto names = core.view().ListXattr(row->inode);
    if (!names.ok()) return ReplyError(request, names.error());
    for (const std::string& name : *names) add(name);
  }
  if (row->nlink == 0) {
    if (const FileTable::Ref file = core.files.Find(nodeid)) {
      const MutexLock lock(file->mutex);
      for (const auto& [name, value] : file->orphan_xattrs) add(name);
    }
  }
  ReplyBytes(request, list, size);
}

/// On a file without a name, which only its handles can reach. False: it has names.
bool ChangeOrphan(MountCore& core, uint64_t nodeid, const std::string& name,
                  const std::string* value, int flags, int& error) {
  const FileTable::Ref file = core.files.Find(nodeid);
  if (!file) return false;
  (void)RowOf(core, *file);
  const MutexLock lock(file->mutex);
  if (!file->orphan) return false;
  const bool exists = file->orphan_xattrs.contains(name);
  if ((flags & XATTR_CREATE) != 0 && exists) {
    error = EEXIST;
  } else if (((flags & XATTR_REPLACE) != 0 || value == nullptr) && !exists) {
    error = ENODATA;
  } else if (value != nullptr) {
    file->orphan_xattrs[name] = *value;
  } else {
    file->orphan_xattrs.erase(name);
  }
  return true;
}

void Change(fuse_req_t request, fuse_ino_t nodeid, const char* name, const std::string* value,
            int flags) {
  MountCore& core = CoreOf(request);
  if (!IsKept(name)) return void(fuse_reply_err(request, EOPNOTSUPP));
  if (IsVirtualXattr(name)) return void(fuse_reply_err(request, EPERM));
  int error = 0;
  if (ChangeOrphan(core, nodeid, name, value, flags, error)) {
    return void(fuse_reply_err(request, error));
  }
  metadata::Operation change;
  change.kind = value != nullptr ? metadata::OpKind::kSetXattr : metadata::OpKind::kRemoveXattr;
  change.inode = core.inodes.InodeOf(nodeid);
  change.xattr_name = name;
  if (value != nullptr) change.xattr_value = *value;
  if ((flags & XATTR_CREATE) != 0) change.xattr_flags |= metadata::kXattrCreate;
  if ((flags & XATTR_REPLACE) != 0) change.xattr_flags |= metadata::kXattrReplace;
  const auto done = SubmitFor(request, std::move(change));
  fuse_reply_err(request, done.ok() ? 0 : ErrnoOf(done.error()));
}

void SetXattr(fuse_req_t request, fuse_ino_t nodeid, const char* name, const char* value,
              size_t size, int flags) {
  const std::string bytes(value, size);
  Change(request, nodeid, name, &bytes, flags);
}

void RemoveXattr(fuse_req_t request, fuse_ino_t nodeid, const char* name) {
  Change(request, nodeid, name, nullptr, 0);
}

}  // namespace

void AddXattrOperations(fuse_lowlevel_ops& table) {
  table.getxattr = GetXattr;
  table.setxattr = SetXattr;
  table.listxattr = ListXattr;
  table.removexattr = RemoveXattr;
}

}  // namespace quadfs::fs
