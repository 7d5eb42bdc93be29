// Attributes: stat, chmod, chown, utimens, truncate, statfs.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "fs/node/content.h"
#include "fs/node/handle.h"
#include "fs/node/publisher.h"
#include "fs/node/request.h"
#include "fs/node/rows.h"

namespace quadfs::fs {
namespace {

using metadata::Attributes;
using metadata::Operation;

int64_t Nanoseconds(const struct timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void ReplyStat(fuse_req_t request, fuse_ino_t nodeid) {
  const auto shown = StatOf(CoreOf(request), nodeid);
  if (!shown.ok()) return ReplyError(request, shown.error());
  fuse_reply_attr(request, &shown->status, shown->keep ? kKeepSeconds : 0);
}

void GetAttributes(fuse_req_t request, fuse_ino_t nodeid, fuse_file_info*) {
  ReplyStat(request, nodeid);
}

Result<void> SetSize(fuse_req_t request, fuse_ino_t nodeid, uint64_t size) {
  MountCore& core = CoreOf(request);
  FileTable::Ref file = core.files.Acquire(nodeid, core.inodes.InodeOf(nodeid));
  const Patience patience(core, request);
  const MutexLock turn(file->turn);
  if (!file->dirty && core.inodes.superseded(nodeid)) {
    return Error(ErrorCode::kStale, "the file has a newer version");
  }
  const Attributes row = QUADFS_TRY(RowOf(core, *file));
  if (row.type != metadata::FileType::kRegular) {
    return Error(ErrorCode::kInvalidArgument, "only files have a size to set");
  }
  ContentWish wish;
  wish.write = true;
  wish.truncate = size == 0;
  wish.uid = fuse_req_ctx(request)->uid;
  QUADFS_TRY(PrepareContent(core, *file, row, wish, patience));
  if (!wish.truncate) QUADFS_TRY(TruncateContent(*file, size));
  if (file->writers > 0) return {};  // Published when they close.
  auto done = core.publisher->Finish(*file, patience.deadline());
  if (!done.ok()) core.publisher->Later(nodeid, std::chrono::milliseconds(100));
  return {};  // The bytes are on this disk.
}

/// The operation for all but the size; its set_mask is 0 if nothing else is asked.
Operation ChangeOf(InodeId inode, const struct stat& wanted, int to_set) {
  Operation change;
  change.kind = metadata::OpKind::kSetAttributes;
  change.inode = inode;
  const int64_t now = Clock::System().WallNanoseconds();
  if ((to_set & FUSE_SET_ATTR_MODE) != 0) {
    change.set_mask |= metadata::kSetMode;
    change.mode = wanted.st_mode & 07777;
  }
  if ((to_set & FUSE_SET_ATTR_UID) != 0) {
    change.set_mask |= metadata::kSetUid;
    change.uid = wanted.st_uid;
  }
  if ((to_set & FUSE_SET_ATTR_GID) != 0) {
    change.set_mask |= metadata::kSetGid;
    change.gid = wanted.st_gid;
  }
  const bool atime_now = (to_set & FUSE_SET_ATTR_ATIME_NOW) != 0;
  const bool mtime_now = (to_set & FUSE_SET_ATTR_MTIME_NOW) != 0;
  const bool atime = (to_set & FUSE_SET_ATTR_ATIME) != 0 || atime_now;
  const bool mtime = (to_set & FUSE_SET_ATTR_MTIME) != 0 || mtime_now;
  if (atime) {
    change.set_mask |= metadata::kSetAtime;
    change.atime_ns = atime_now ? now : Nanoseconds(wanted.st_atim);
  }
  if (mtime) {
    change.set_mask |= metadata::kSetMtime;
    change.mtime_ns = mtime_now ? now : Nanoseconds(wanted.st_mtim);
  }
  // Only "now" may be set by those who may write but do not own the file.
  if ((atime || mtime) && (!atime || atime_now) && (!mtime || mtime_now)) {
    change.set_mask |= metadata::kSetTimesToNow;
  }
  return change;
}

void ApplyToOrphan(Attributes& row, const Operation& change) {
  if ((change.set_mask & metadata::kSetMode) != 0) row.mode = change.mode;
  if ((change.set_mask & metadata::kSetUid) != 0) row.uid = change.uid;
  if ((change.set_mask & metadata::kSetGid) != 0) row.gid = change.gid;
  if ((change.set_mask & metadata::kSetAtime) != 0) row.atime_ns = change.atime_ns;
  if ((change.set_mask & metadata::kSetMtime) != 0) row.mtime_ns = change.mtime_ns;
  row.ctime_ns = std::max(Clock::System().WallNanoseconds(), row.ctime_ns);
}

/// What fstat says of a dirty file is what its next version gets: a time set here must be there.
Result<void> SetLocalTime(OpenFile& file, int64_t mtime_ns) {
  if (!file.dirty || !file.object) return {};
  const bool changed = file.Changed();
  constexpr int64_t kSecond = 1'000'000'000;
  int64_t seconds = mtime_ns / kSecond;
  if (mtime_ns % kSecond < 0) --seconds;
  const struct timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                                    {.tv_sec = seconds, .tv_nsec = mtime_ns - seconds * kSecond}};
  if (::futimens(file.object->fd(), times) != 0) {
    return ErrorFromErrno(errno, "setting the time of a cache file");
  }
  const MutexLock lock(file.mutex);
  file.version.mtime_ns = mtime_ns;
  if (!changed) file.TakeBaseline();
  return {};
}

Result<void> SetOthers(fuse_req_t request, fuse_ino_t nodeid, const Operation& change) {
  MountCore& core = CoreOf(request);
  const FileTable::Ref file = core.files.Find(nodeid);
  if (!file) {
    QUADFS_TRY(SubmitFor(request, change));
    return {};
  }
  const MutexLock turn(file->turn);
  (void)RowOf(core, *file);  // Notices that the last name went.
  if (file->orphan) {
    {
      const MutexLock lock(file->mutex);
      ApplyToOrphan(*file->orphan, change);
    }
  } else {
    QUADFS_TRY(SubmitFor(request, change));
  }
  if ((change.set_mask & metadata::kSetMtime) == 0) return {};
  return SetLocalTime(*file, change.mtime_ns);
}

void SetAttributes(fuse_req_t request, fuse_ino_t nodeid, struct stat* wanted, int to_set,
                   fuse_file_info*) {
  if ((to_set & FUSE_SET_ATTR_SIZE) != 0) {
    const auto done = SetSize(request, nodeid, static_cast<uint64_t>(wanted->st_size));
    if (!done.ok()) return void(fuse_reply_err(request, ContentErrno(done.error())));
  }
  const Operation change = ChangeOf(CoreOf(request).inodes.InodeOf(nodeid), *wanted, to_set);
  if (change.set_mask != 0) {
    const auto done = SetOthers(request, nodeid, change);
    if (!done.ok()) return ReplyError(request, done.error());
  }
  ReplyStat(request, nodeid);
}

/// What is in the tree counts as used; free is what this node can take in. All of it is known
/// here: df does not wait when the line is cut.
void StatFs(fuse_req_t request, fuse_ino_t) {
  MountCore& core = CoreOf(request);
  constexpr uint64_t kBlock = 4096;
  const auto cache = core.cache.status();
  uint64_t free_bytes = cache.capacity_bytes - std::min(cache.capacity_bytes, cache.unsaved_bytes);
  struct statvfs disk {};
  const std::string directory = core.CacheDirectory();
  if (!directory.empty() && ::statvfs(directory.c_str(), &disk) == 0) {
    const uint64_t evictable = cache.used_bytes - std::min(cache.used_bytes, cache.unsaved_bytes);
    free_bytes = std::min(free_bytes, disk.f_bavail * disk.f_frsize + evictable);
  }
  const auto totals = core.view().SubtreeTotals(kRootInode);
  struct statvfs shown {};
  shown.f_bsize = kBlock;
  shown.f_frsize = kBlock;
  shown.f_bfree = shown.f_bavail = free_bytes / kBlock;
  shown.f_blocks = shown.f_bfree + (totals.ok() ? (totals->bytes + kBlock - 1) / kBlock : 0);
  constexpr uint64_t kFreeInodes = uint64_t{1} << 32;
  shown.f_ffree = shown.f_favail = kFreeInodes;
  shown.f_files = kFreeInodes + (totals.ok() ? totals->files + totals->directories + 1 : 1);
  shown.f_namemax = metadata::kMaxNameBytes;
  fuse_reply_statfs(request, &shown);
}

}  // namespace

void AddAttributeOperations(fuse_lowlevel_ops& table) {
  table.getattr = GetAttributes;
  table.setattr = SetAttributes;
  table.statfs = StatFs;
}

}  // namespace quadfs::fs
