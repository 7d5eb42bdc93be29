#include "fs/node/request.h"

#include <array>
#include <cerrno>

#include "fs/node/rows.h"

namespace quadfs::fs {

metadata::Credentials CallerOf(fuse_req_t request) {
  const fuse_ctx* const context = fuse_req_ctx(request);
  metadata::Credentials credentials;
  credentials.uid = context->uid;
  credentials.gid = context->gid;
  if (context->uid == 0) return credentials;  // Root may do all: the groups need not be read.
  std::array<gid_t, 64> groups{};
  int count = fuse_req_getgroups(request, static_cast<int>(groups.size()), groups.data());
  if (count <= static_cast<int>(groups.size())) {
    if (count > 0) credentials.groups.assign(groups.begin(), groups.begin() + count);
    return credentials;
  }
  credentials.groups.resize(static_cast<size_t>(count));
  const int again = fuse_req_getgroups(request, count, credentials.groups.data());
  credentials.groups.resize(static_cast<size_t>(std::max(0, std::min(again, count))));
  return credentials;
}

Result<metadata::OpResult> SubmitFor(fuse_req_t request, metadata::Operation operation) {
  MountCore& core = CoreOf(request);
  operation.credentials = CallerOf(request);
  operation.now_ns = Clock::System().WallNanoseconds();
  auto done = Patience(core, request).Try([&](Deadline deadline) {
    return core.replica.Submit(operation, deadline);
  });
  if (!done.ok() && done.error().code() == ErrorCode::kTimedOut) core.NoteUncertain();
  return done;
}

Result<void> SyncNames(MountCore& core) {
  auto done = core.replica.Flush(core.NewDeadline(), /*patient=*/false);
  // The journal on this disk has it, and the hub gets it when it is there again.
  if (!done.ok() && done.error().code() == ErrorCode::kUnavailable) return {};
  return done;
}

void ReplyEntry(fuse_req_t request, const metadata::Attributes& row) {
  MountCore& core = CoreOf(request);
  const fuse_entry_param entry = EntryOf(core, row);
  if (fuse_reply_entry(request, &entry) != 0) core.inodes.Forget(entry.ino, 1);
}

}  // namespace quadfs::fs
