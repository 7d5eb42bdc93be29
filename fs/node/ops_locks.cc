// Locks: fcntl and flock, kept at the hub so that they count on every node.
#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "fs/node/handle.h"
#include "fs/node/request.h"

namespace quadfs::fs {
namespace {

using metadata::LockHolder;
using metadata::LockKind;
using metadata::LockRequest;
using metadata::LockType;

/// One round of waiting at the hub: how long a signal may go unnoticed.
constexpr std::chrono::milliseconds kWaitRound{200};

LockType TypeOf(int type) {
  switch (type) {
    case F_RDLCK: return LockType::kShared;
    case F_WRLCK: return LockType::kExclusive;
    default: return LockType::kUnlock;
  }
}

LockRequest PosixRequest(fuse_req_t request, fuse_ino_t nodeid, const fuse_file_info& info,
                         const struct flock& wanted) {
  LockRequest lock;
  lock.inode = CoreOf(request).inodes.InodeOf(nodeid);
  lock.kind = LockKind::kPosix;
  lock.type = TypeOf(wanted.l_type);
  lock.owner = info.lock_owner;
  lock.first_byte = static_cast<uint64_t>(wanted.l_start);
  lock.last_byte =
      wanted.l_len == 0 ? UINT64_MAX : static_cast<uint64_t>(wanted.l_start + wanted.l_len - 1);
  lock.pid = static_cast<uint32_t>(wanted.l_pid);
  return lock;
}

void GetLock(fuse_req_t request, fuse_ino_t nodeid, fuse_file_info* info, struct flock* wanted) {
  MountCore& core = CoreOf(request);
  const auto holder =
      core.replica.TestLock(PosixRequest(request, nodeid, *info, *wanted), core.NewDeadline());
  if (!holder.ok()) return ReplyError(request, holder.error());
  struct flock answer = *wanted;
  if (!*holder) {
    answer.l_type = F_UNLCK;
  } else {
    const LockHolder& found = **holder;
    answer.l_type = found.type == LockType::kShared ? F_RDLCK : F_WRLCK;
    answer.l_whence = SEEK_SET;
    answer.l_start = static_cast<off_t>(found.first_byte);
    answer.l_len = found.last_byte >= static_cast<uint64_t>(INT64_MAX)
                       ? 0
                       : static_cast<off_t>(found.last_byte - found.first_byte + 1);
    answer.l_pid = static_cast<pid_t>(found.pid);
  }
  fuse_reply_lock(request, &answer);
}

/// Asks the hub again and again until the lock is had, refused, or a signal comes.
void WaitForLock(fuse_req_t request, LockRequest lock) {
  MountCore& core = CoreOf(request);
  lock.wait = kWaitRound;
  int error = 0;
  for (;;) {
    const auto done = core.replica.Lock(lock, Deadline::After(core.options.deadline + kWaitRound));
    if (done.ok()) break;
    error = ErrnoOf(done.error());
    if (done.error().code() != ErrorCode::kWouldBlock) break;
    if (fuse_req_interrupted(request) != 0 || core.lock_waiters.stopping()) {
      error = EINTR;
      break;
    }
    error = 0;
  }
  fuse_reply_err(request, error);
}

void SetLock(fuse_req_t request, const LockRequest& lock, bool wait) {
  MountCore& core = CoreOf(request);
  auto done = core.replica.Lock(lock, core.NewDeadline());
  const bool held = !done.ok() && done.error().code() == ErrorCode::kWouldBlock;
  if (!held || !wait) {
    return void(fuse_reply_err(request, done.ok() ? 0 : ErrnoOf(done.error())));
  }
  // Not on a thread of the mount's loop: waiters must not keep others from unlocking.
  if (!core.lock_waiters.Run([request, lock] { WaitForLock(request, lock); })) {
    fuse_reply_err(request, ENOLCK);
  }
}

void SetPosixLock(fuse_req_t request, fuse_ino_t nodeid, fuse_file_info* info, struct flock* wanted,
                  int sleep) {
  const LockRequest lock = PosixRequest(request, nodeid, *info, *wanted);
  if (lock.type != LockType::kUnlock) {
    CoreOf(request).lock_owners.Add(lock.inode, lock.owner, info->fh);
  }
  SetLock(request, lock, sleep != 0);
}

void SetFlock(fuse_req_t request, fuse_ino_t nodeid, fuse_file_info* info, int operation) {
  LockRequest lock;
  lock.inode = CoreOf(request).inodes.InodeOf(nodeid);
  lock.kind = LockKind::kFlock;
  lock.owner = info->lock_owner;
  lock.pid = static_cast<uint32_t>(fuse_req_ctx(request)->pid);
  switch (operation & ~LOCK_NB) {
    case LOCK_SH: lock.type = LockType::kShared; break;
    case LOCK_EX: lock.type = LockType::kExclusive; break;
    case LOCK_UN: lock.type = LockType::kUnlock; break;
    default: return void(fuse_reply_err(request, EINVAL));
  }
  SetLock(request, lock, (operation & LOCK_NB) == 0);
}

}  // namespace

void AddLockOperations(fuse_lowlevel_ops& table) {
  table.getlk = GetLock;
  table.setlk = SetPosixLock;
  table.flock = SetFlock;
}

}  // namespace quadfs::fs
