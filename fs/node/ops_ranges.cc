// Ranges of files: holes, reserved space, copies inside the mount.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "cache/file_io.h"
#include "fs/node/content.h"
#include "fs/node/handle.h"
#include "fs/node/range_io.h"
#include "fs/node/request.h"

namespace quadfs::fs {
namespace {

/// One request copies at most this much by hand; programs call again.
constexpr uint64_t kCopyStep = uint64_t{8} << 20;

int AllocateIn(fuse_req_t request, OpenFile& file, int mode, off_t offset, off_t length) {
  MountCore& core = CoreOf(request);
  constexpr int kKnown = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
  if ((mode & ~kKnown) != 0) return EOPNOTSUPP;
  const MutexLock turn(file.turn);
  if (!file.dirty || !file.object) return EBADF;
  const auto whole = CompleteContent(core, file, Patience(core, request));
  if (!whole.ok()) return ContentErrno(whole.error());
  if (::fallocate(file.object->fd(), mode, offset, length) != 0) return errno;
  const uint32_t uid = fuse_req_ctx(request)->uid;
  const MutexLock lock(file.mutex);
  file.forced = true;
  if (uid != 0) file.writer_uid = uid;
  return 0;
}

void Allocate(fuse_req_t request, fuse_ino_t, int mode, off_t offset, off_t length,
              fuse_file_info* info) {
  fuse_reply_err(request, AllocateIn(request, *HandleOf(info).file, mode, offset, length));
}

void Seek(fuse_req_t request, fuse_ino_t, off_t offset, int whence, fuse_file_info* info) {
  OpenFile& file = *HandleOf(info).file;
  const uint64_t size = SizeOf(file);
  if (offset < 0 || static_cast<uint64_t>(offset) >= size) {
    return void(fuse_reply_err(request, ENXIO));
  }
  int fd = -1;
  bool whole = false;
  {
    const MutexLock lock(file.mutex);
    fd = file.ContentFd();
    whole = file.store_file || (file.object && file.object->complete());
  }
  if (!whole) {  // Holes of a partial copy mean nothing: all is data.
    return void(fuse_reply_lseek(request, whence == SEEK_DATA ? offset : static_cast<off_t>(size)));
  }
  const off_t found = ::lseek(fd, offset, whence);
  if (found < 0) return void(fuse_reply_err(request, errno));
  fuse_reply_lseek(request, found);
}

/// Copies through memory. Returns the bytes copied: 0 only at the source's end.
Result<uint64_t> CopyBytes(fuse_req_t request, OpenFile& from, uint64_t from_offset, OpenFile& to,
                           uint64_t to_offset, uint64_t length) {
  MountCore& core = CoreOf(request);
  const Patience patience(core, request);
  uint64_t copied = 0;
  length = std::min(length, kCopyStep);
  std::vector<std::byte> buffer;
  while (copied < length) {
    auto range = PrepareRead(core, from, from_offset + copied,
                             std::min(length - copied, kBlockBytes), patience);
    if (!range.ok()) {
      if (copied > 0) return copied;
      return std::move(range).error();
    }
    if (range->length == 0) break;
    if (range->around.empty()) {
      buffer.resize(range->length);
      const uint64_t got = QUADFS_TRY(cache::ReadAt(range->fd, buffer, from_offset + copied));
      if (got == 0) break;
      buffer.resize(got);
    } else {
      buffer = std::move(range->around);
    }
    QUADFS_TRY(WriteRange(core, to, to_offset + copied, buffer, patience));
    copied += buffer.size();
  }
  return copied;
}

void CopyRange(fuse_req_t request, fuse_ino_t, off_t from_offset, fuse_file_info* from_info,
               fuse_ino_t, off_t to_offset, fuse_file_info* to_info, size_t length, int) {
  OpenFile& from = *HandleOf(from_info).file;
  OpenFile& to = *HandleOf(to_info).file;
  // The reply counts in 32 bits.
  length = std::min<size_t>(length, size_t{1} << 30);
  cache::ObjectRef source, target;
  {
    const MutexLock lock(from.mutex);
    source = from.object;
  }
  {
    const MutexLock lock(to.mutex);
    if (to.dirty) target = to.object;
  }
  if (!target) return void(fuse_reply_err(request, EBADF));
  if (source && source->complete() && target->complete()) {
    off_t in = from_offset, out = to_offset;
    const ssize_t copied = ::copy_file_range(source->fd(), &in, target->fd(), &out, length, 0);
    if (copied >= 0) return void(fuse_reply_write(request, static_cast<size_t>(copied)));
    if (errno == ENOSPC || errno == EFBIG || errno == EINVAL) {
      return void(fuse_reply_err(request, errno));
    }
  }
  const auto copied = CopyBytes(request, from, static_cast<uint64_t>(from_offset), to,
                                static_cast<uint64_t>(to_offset), length);
  if (!copied.ok()) return void(fuse_reply_err(request, ContentErrno(copied.error())));
  fuse_reply_write(request, *copied);
}

void Control(fuse_req_t request, fuse_ino_t, unsigned int, void*, fuse_file_info*, unsigned,
             const void*, size_t, size_t) {
  fuse_reply_err(request, ENOTTY);
}

}  // namespace

void AddRangeOperations(fuse_lowlevel_ops& table) {
  table.fallocate = Allocate;
  table.lseek = Seek;
  table.copy_file_range = CopyRange;
  table.ioctl = Control;
}

}  // namespace quadfs::fs
