#pragma once

#include "fs/errno_map.h"
#include "fs/node/fuse_compat.h"
#include "fs/node/mount_core.h"
#include "fs/node/patience.h"

namespace quadfs::fs {

/// What every handler does first and last. A handler decodes, calls, and replies exactly once,
/// holding no lock.
inline MountCore& CoreOf(fuse_req_t request) {
  return *static_cast<MountCore*>(fuse_req_userdata(request));
}
metadata::Credentials CallerOf(fuse_req_t request);

/// Sends the operation as the caller's; returns when this node shows its effect.
Result<metadata::OpResult> SubmitFor(fuse_req_t request, metadata::Operation operation);

/// After it every change of names so far is on this node's disk, and at the hub if that is there.
Result<void> SyncNames(MountCore& core);

inline void ReplyError(fuse_req_t request, const Error& error) {
  fuse_reply_err(request, ErrnoOf(error));
}
/// Of file content: too large means EFBIG.
inline int ContentErrno(const Error& error) {
  return error.code() == ErrorCode::kTooLarge ? EFBIG : ErrnoOf(error);
}
inline void ReplyDone(fuse_req_t request, const Result<void>& result) {
  fuse_reply_err(request, result.ok() ? 0 : ErrnoOf(result.error()));
}
/// Replies with an entry and takes its lookup back if the kernel did not get it.
void ReplyEntry(fuse_req_t request, const metadata::Attributes& row);

// The handlers, by group; each file fills in its part of the table.
void AddNameOperations(fuse_lowlevel_ops& table);
void AddAttributeOperations(fuse_lowlevel_ops& table);
void AddDirectoryOperations(fuse_lowlevel_ops& table);
void AddOpenOperations(fuse_lowlevel_ops& table);
void AddContentOperations(fuse_lowlevel_ops& table);
void AddRangeOperations(fuse_lowlevel_ops& table);
void AddXattrOperations(fuse_lowlevel_ops& table);
void AddLockOperations(fuse_lowlevel_ops& table);

}  // namespace quadfs::fs
