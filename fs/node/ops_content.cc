// Bytes of files in cached mode: read and write through the daemon.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "fs/node/handle.h"
#include "fs/node/range_io.h"
#include "fs/node/request.h"

namespace quadfs::fs {
namespace {

void Read(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
  MountCore& core = CoreOf(request);
  OpenFile& file = *HandleOf(info).file;
  const Patience patience(core, request);
  const auto ready = PrepareRead(core, file, static_cast<uint64_t>(offset), size, patience);
  if (!ready.ok()) return void(fuse_reply_err(request, ContentErrno(ready.error())));
  if (ready->length == 0) return void(fuse_reply_buf(request, nullptr, 0));
  if (!ready->around.empty()) {
    return void(fuse_reply_buf(request, reinterpret_cast<const char*>(ready->around.data()),
                               ready->around.size()));
  }
  fuse_bufvec buffer = FUSE_BUFVEC_INIT(ready->length);
  buffer.buf[0].flags = static_cast<fuse_buf_flags>(FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK);
  buffer.buf[0].fd = ready->fd;
  buffer.buf[0].pos = offset;
  fuse_reply_data(request, &buffer, FUSE_BUF_SPLICE_MOVE);
}

void Write(fuse_req_t request, fuse_ino_t, const char* bytes, size_t size, off_t offset,
           fuse_file_info* info) {
  MountCore& core = CoreOf(request);
  Handle& handle = HandleOf(info);
  const auto done =
      WriteRange(core, *handle.file, static_cast<uint64_t>(offset),
                 std::as_bytes(std::span<const char>(bytes, size)), Patience(core, request));
  if (!done.ok()) return void(fuse_reply_err(request, ContentErrno(done.error())));
  fuse_reply_write(request, size);
}

}  // namespace

void AddContentOperations(fuse_lowlevel_ops& table) {
  table.read = Read;
  table.write = Write;
}

}  // namespace quadfs::fs
