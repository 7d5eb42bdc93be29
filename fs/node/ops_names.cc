// Names: lookup, forget, and what makes, moves and removes names.
#include <linux/fs.h>
#include <sys/stat.h>

#include <cerrno>

#include "fs/node/request.h"
#include "fs/node/rows.h"

namespace quadfs::fs {
namespace {

using metadata::Attributes;
using metadata::FileType;
using metadata::Operation;
using metadata::OpKind;

/// The kernel may remember that there is no such name.
void ReplyAbsent(fuse_req_t request) {
  fuse_entry_param nothing{};
  nothing.entry_timeout = kKeepSeconds;
  fuse_reply_entry(request, &nothing);
}

void Lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  MountCore& core = CoreOf(request);
  const InodeId directory = core.inodes.InodeOf(parent);
  auto row = core.view().Lookup(directory, name);
  if (row.ok()) return ReplyEntry(request, *row);
  if (row.error().code() != ErrorCode::kNotFound) return ReplyError(request, row.error());
  // A miss counts once the hub says that we have seen all it knew.
  if (!core.replica.status().connected) return void(fuse_reply_err(request, ENOENT));
  if (!core.replica.Barrier(false, core.NewDeadline(), directory).ok()) {
    return void(fuse_reply_err(request, ENOENT));
  }
  row = core.view().Lookup(directory, name);
  if (row.ok()) return ReplyEntry(request, *row);
  if (row.error().code() == ErrorCode::kNotFound) return ReplyAbsent(request);
  ReplyError(request, row.error());
}

void Forget(fuse_req_t request, fuse_ino_t nodeid, uint64_t count) {
  CoreOf(request).inodes.Forget(nodeid, count);
  fuse_reply_none(request);
}

void ForgetMany(fuse_req_t request, size_t count, fuse_forget_data* forgets) {
  MountCore& core = CoreOf(request);
  for (size_t i = 0; i < count; ++i) core.inodes.Forget(forgets[i].ino, forgets[i].nlookup);
  fuse_reply_none(request);
}

Result<Attributes> Make(fuse_req_t request, fuse_ino_t parent, const char* name, Operation make) {
  MountCore& core = CoreOf(request);
  make.kind = OpKind::kCreate;
  make.parent = core.inodes.InodeOf(parent);
  make.name = name;
  make.inode = QUADFS_TRY(Patience(core, request).Try([&](Deadline deadline) {
    return core.replica.NextInode(deadline);
  }));
  return QUADFS_TRY(SubmitFor(request, std::move(make))).attributes;
}

void ReplyMade(fuse_req_t request, const Result<Attributes>& made) {
  if (!made.ok()) return ReplyError(request, made.error());
  ReplyEntry(request, *made);
}

void MakeNode(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t rdev) {
  Operation make;
  switch (mode & S_IFMT) {
    case 0:
    case S_IFREG: make.type = FileType::kRegular; break;
    case S_IFIFO: make.type = FileType::kFifo; break;
    case S_IFSOCK: make.type = FileType::kSocket; break;
    case S_IFCHR: make.type = FileType::kCharacterDevice; break;
    case S_IFBLK: make.type = FileType::kBlockDevice; break;
    default: return void(fuse_reply_err(request, EINVAL));
  }
  make.mode = mode & 07777;
  make.rdev = rdev;
  ReplyMade(request, Make(request, parent, name, std::move(make)));
}

void MakeDirectory(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  Operation make;
  make.type = FileType::kDirectory;
  make.mode = mode & 07777;
  ReplyMade(request, Make(request, parent, name, std::move(make)));
}

void MakeSymlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  Operation make;
  make.type = FileType::kSymlink;
  make.symlink_target = target;
  ReplyMade(request, Make(request, parent, name, std::move(make)));
}

void ReadLink(fuse_req_t request, fuse_ino_t nodeid) {
  const auto row = RowOf(CoreOf(request), nodeid);
  if (!row.ok()) return ReplyError(request, row.error());
  if (row->type != FileType::kSymlink) return void(fuse_reply_err(request, EINVAL));
  fuse_reply_readlink(request, row->symlink_target.c_str());
}

void Link(fuse_req_t request, fuse_ino_t nodeid, fuse_ino_t parent, const char* name) {
  MountCore& core = CoreOf(request);
  Operation link;
  link.kind = OpKind::kLink;
  link.inode = core.inodes.InodeOf(nodeid);
  link.parent = core.inodes.InodeOf(parent);
  link.name = name;
  const auto done = SubmitFor(request, std::move(link));
  if (!done.ok()) return ReplyError(request, done.error());
  ReplyEntry(request, done->attributes);
}

/// A file that lost its last name keeps its attributes for those who have it open.
void KeepForHandles(MountCore& core, const Attributes& row) {
  if (row.nlink != 0 || row.type != FileType::kRegular) return;
  if (const auto file = core.files.Find(core.inodes.Current(row.inode))) (void)RowOf(core, *file);
}

void Remove(fuse_req_t request, OpKind kind, fuse_ino_t parent, const char* name) {
  MountCore& core = CoreOf(request);
  Operation remove;
  remove.kind = kind;
  remove.parent = core.inodes.InodeOf(parent);
  remove.name = name;
  const auto done = SubmitFor(request, std::move(remove));
  if (done.ok()) KeepForHandles(core, done->attributes);
  fuse_reply_err(request, done.ok() ? 0 : ErrnoOf(done.error()));
}

void Unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Remove(request, OpKind::kUnlink, parent, name);
}

void RemoveDirectory(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Remove(request, OpKind::kRmdir, parent, name);
}

void Rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
            const char* new_name, unsigned int flags) {
  MountCore& core = CoreOf(request);
  Operation rename;
  rename.kind = OpKind::kRename;
  if ((flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0 ||
      flags == (RENAME_NOREPLACE | RENAME_EXCHANGE)) {
    return void(fuse_reply_err(request, EINVAL));
  }
  if ((flags & RENAME_NOREPLACE) != 0) rename.rename_flags |= metadata::kRenameNoReplace;
  if ((flags & RENAME_EXCHANGE) != 0) rename.rename_flags |= metadata::kRenameExchange;
  rename.parent = core.inodes.InodeOf(parent);
  rename.name = name;
  rename.new_parent = core.inodes.InodeOf(new_parent);
  rename.new_name = new_name;
  const auto done = SubmitFor(request, std::move(rename));
  if (done.ok() && done->replaced) KeepForHandles(core, *done->replaced);
  fuse_reply_err(request, done.ok() ? 0 : ErrnoOf(done.error()));
}

}  // namespace

void AddNameOperations(fuse_lowlevel_ops& table) {
  table.lookup = Lookup;
  table.forget = Forget;
  table.forget_multi = ForgetMany;
  table.mknod = MakeNode;
  table.mkdir = MakeDirectory;
  table.symlink = MakeSymlink;
  table.readlink = ReadLink;
  table.link = Link;
  table.unlink = Unlink;
  table.rmdir = RemoveDirectory;
  table.rename = Rename;
}

}  // namespace quadfs::fs
