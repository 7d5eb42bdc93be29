// Open files: create, open, flush, release, fsync, and which I/O mode an inode is in.
#include <fcntl.h>

#include <cerrno>

#include "fs/node/content.h"
#include "fs/node/handle.h"
#include "fs/node/invalidator.h"
#include "fs/node/publisher.h"
#include "fs/node/request.h"
#include "fs/node/rows.h"

namespace quadfs::fs {
namespace {

using metadata::Attributes;

bool ForWriting(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }

/// The first open decides; as long as there are handles, the kernel accepts no other mode.
void ChooseMode(fuse_req_t request, MountCore& core, OpenFile& file) {
  if (file.mode != IoMode::kNone) return;
  IoMode mode = IoMode::kCached;
  int backing_id = 0;
  const bool whole = file.store_file || (file.object && file.object->complete());
  if (core.passthrough && whole && file.ContentFd() >= 0) {
    backing_id = OpenBacking(request, file.ContentFd());
    if (backing_id > 0) {
      mode = IoMode::kPassthrough;
    } else {
      core.passthrough = false;  // Neither permission nor file system will change while mounted.
      core.SetProblem("passthrough is not possible here: the daemon reads and writes");
    }
  }
  const MutexLock lock(file.mutex);
  file.mode = mode;
  file.backing_id = backing_id;
}

/// Adds a handle to a file whose content was prepared. The caller holds the turn.
void AddHandle(fuse_req_t request, MountCore& core, FileTable::Ref file, fuse_file_info* info) {
  OpenFile& opened = *file;
  ChooseMode(request, core, opened);
  const bool writable = ForWriting(info->flags);
  const bool first_writer = writable && opened.writers == 0;
  if (opened.mode == IoMode::kPassthrough) {
    UseBacking(*info, opened.backing_id);
    if (writable) core.inodes.SetPages(opened.nodeid, Generation());
    ++core.passthrough_opens;
  } else {
    info->keep_cache =
        opened.handles > 0 || (!opened.dirty && opened.version.generation.value != 0 &&
                               core.inodes.Pages(opened.nodeid) == opened.version.generation);
    core.inodes.SetPages(opened.nodeid, opened.dirty ? Generation() : opened.version.generation);
    ++core.cached_opens;
  }
  {
    const MutexLock lock(opened.mutex);
    ++opened.handles;
    if (writable) ++opened.writers;
    if (opened.mode == IoMode::kPassthrough && (info->flags & O_ACCMODE) == O_RDWR) {
      opened.mappable = true;
    }
  }
  ++core.open_handles;
  // From now on size and times change without the kernel's asking.
  if (first_writer) core.invalidator->AttributesNow(opened.nodeid);
  auto handle = std::make_unique<Handle>();
  handle->writable = writable;
  handle->file = std::move(file);
  info->fh = reinterpret_cast<uintptr_t>(handle.release());
}

/// Ends a handle: what it leaves is published, the last one ends the I/O mode.
void DropHandle(fuse_req_t request, MountCore& core, fuse_file_info* info) {
  const std::unique_ptr<Handle> handle(&HandleOf(info));
  OpenFile& file = *handle->file;
  const MutexLock turn(file.turn);
  bool last = false;
  {
    const MutexLock lock(file.mutex);
    --file.handles;
    if (handle->writable) --file.writers;
    last = file.handles == 0;
  }
  --core.open_handles;
  if (file.dirty && file.writers == 0) {
    if (auto done = core.publisher->Finish(file, core.NewDeadline()); !done.ok()) {
      core.SetProblem("publishing waits: " + done.error().ToString());
      core.publisher->Later(file.nodeid, std::chrono::milliseconds(100));
    }
  }
  if (!last) return;
  if (file.backing_id > 0) CloseBacking(request, file.backing_id);
  if (file.object) {
    if (file.orphan) {
      file.object->Discard();
    } else if (!file.object->complete()) {
      core.data.fetcher().Cancel(file.object->id());
    }
  }
  const MutexLock lock(file.mutex);
  file.backing_id = 0;
  file.mode = IoMode::kNone;
  if (!file.orphan) return;
  file.dirty = false;
  file.object.reset();
  file.attached = false;
}

Result<void> PrepareOpen(fuse_req_t request, OpenFile& file, const fuse_file_info& info) {
  MountCore& core = CoreOf(request);
  if (!file.dirty && core.inodes.superseded(file.nodeid)) {
    return Error(ErrorCode::kStale, "a newer version has another kernel inode");
  }
  auto found = RowOf(core, file);
  const bool gone = found.ok() ? found->nlink == 0 : found.error().code() == ErrorCode::kNotFound;
  if (gone && !file.attached) {
    // Removed or replaced between lookup and open, and nobody holds it: the name tells what is now.
    return Error(ErrorCode::kStale, "the file was removed");
  }
  const Attributes row = QUADFS_TRY(std::move(found));
  if (row.type != metadata::FileType::kRegular) {
    return Error(ErrorCode::kInvalidArgument, "only files have content");
  }
  ContentWish wish;
  wish.write = ForWriting(info.flags);
  wish.truncate = wish.write && (info.flags & O_TRUNC) != 0;
  wish.uid = wish.write ? fuse_req_ctx(request)->uid : 0;
  return PrepareContent(core, file, row, wish, Patience(core, request));
}

void Open(fuse_req_t request, fuse_ino_t nodeid, fuse_file_info* info) {
  MountCore& core = CoreOf(request);
  Result<void> ready;
  {
    FileTable::Ref file = core.files.Acquire(nodeid, core.inodes.InodeOf(nodeid));
    FileTable::Ref ours = core.files.Find(nodeid);
    const MutexLock turn(ours->turn);
    ready = PrepareOpen(request, *ours, *info);
    if (ready.ok()) AddHandle(request, core, std::move(file), info);
  }
  if (!ready.ok()) return void(fuse_reply_err(request, ContentErrno(ready.error())));
  // A reply that the kernel refuses was interrupted: no release will come.
  if (fuse_reply_open(request, info) == -ENOENT) DropHandle(request, core, info);
}

void Create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
            fuse_file_info* info) {
  MountCore& core = CoreOf(request);
  metadata::Operation make;
  make.kind = metadata::OpKind::kCreate;
  make.parent = core.inodes.InodeOf(parent);
  make.name = name;
  make.mode = mode & 07777;
  auto inode = Patience(core, request).Try([&](Deadline deadline) {
    return core.replica.NextInode(deadline);
  });
  if (!inode.ok()) return ReplyError(request, inode.error());
  make.inode = *inode;
  const auto made = SubmitFor(request, std::move(make));
  if (!made.ok()) {
    // Somebody made it meanwhile: the kernel looks it up and opens it.
    const bool lost = made.error().code() == ErrorCode::kExists && (info->flags & O_EXCL) == 0;
    return void(fuse_reply_err(request, lost ? ESTALE : ErrnoOf(made.error())));
  }
  info->flags &= ~O_TRUNC;  // There is nothing to cut off.
  const uint64_t nodeid = core.inodes.Remember(made->attributes.inode);
  Result<void> ready;
  {
    FileTable::Ref file = core.files.Acquire(nodeid, made->attributes.inode);
    FileTable::Ref ours = core.files.Find(nodeid);
    const MutexLock turn(ours->turn);
    ready = PrepareOpen(request, *ours, *info);
    if (ready.ok()) AddHandle(request, core, std::move(file), info);
  }
  if (!ready.ok()) {
    core.inodes.Forget(nodeid, 1);
    return void(fuse_reply_err(request, ContentErrno(ready.error())));
  }
  const fuse_entry_param entry = EntryOf(core, made->attributes);
  core.inodes.Forget(nodeid, 1);  // EntryOf counted it as well.
  if (fuse_reply_create(request, &entry, info) == -ENOENT) {
    DropHandle(request, core, info);
    core.inodes.Forget(nodeid, 1);
  }
}

void Flush(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  MountCore& core = CoreOf(request);
  Handle& handle = HandleOf(info);
  OpenFile& file = *handle.file;
  Result<void> done;
  if (handle.writable) {
    const MutexLock turn(file.turn);
    done = core.publisher->Publish(file, core.NewDeadline());
  }
  if (core.lock_owners.TakeOwner(file.inode, info->lock_owner)) {
    (void)core.replica.ReleaseLocks(file.inode, info->lock_owner, core.NewDeadline());
  }
  ReplyDone(request, done);
}

void ReleaseLocksOf(MountCore& core, const Handle& handle, const fuse_file_info& info) {
  const InodeId inode = handle.file->inode;
  if (info.flock_release != 0) {
    metadata::LockRequest unlock;
    unlock.inode = inode;
    unlock.kind = metadata::LockKind::kFlock;
    unlock.type = metadata::LockType::kUnlock;
    unlock.owner = info.lock_owner;
    (void)core.replica.Lock(unlock, core.NewDeadline());
  }
  for (const uint64_t owner : core.lock_owners.TakeHandle(inode, info.fh)) {
    (void)core.replica.ReleaseLocks(inode, owner, core.NewDeadline());
  }
}

void Release(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  MountCore& core = CoreOf(request);
  ReleaseLocksOf(core, HandleOf(info), *info);
  DropHandle(request, core, info);
  fuse_reply_err(request, 0);
}

void Sync(fuse_req_t request, fuse_ino_t, int, fuse_file_info* info) {
  MountCore& core = CoreOf(request);
  OpenFile& file = *HandleOf(info).file;
  cache::ObjectRef object;
  {
    const MutexLock lock(file.mutex);
    if (file.dirty) object = file.object;
  }
  Result<void> done;
  if (object) {
    done = object->Sync();
    if (done.ok()) done = core.local.Sync();
  }
  if (done.ok()) done = SyncNames(core);
  ReplyDone(request, done);
}

}  // namespace

void AddOpenOperations(fuse_lowlevel_ops& table) {
  table.create = Create;
  table.open = Open;
  table.flush = Flush;
  table.release = Release;
  table.fsync = Sync;
}

}  // namespace quadfs::fs
