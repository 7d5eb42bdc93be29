#include "cache/file_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "transport/base/error.h"

namespace quadfs::cache {

Result<uint64_t> ReadAt(int fd, std::span<std::byte> buffer, uint64_t offset) {
  uint64_t done = 0;
  while (done < buffer.size()) {
    const ssize_t got =
        ::pread(fd, buffer.data() + done, buffer.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrorFromErrno(errno, "read of a data file");
    if (got == 0) break;
    done += static_cast<uint64_t>(got);
  }
  return done;
}

Result<void> WriteAt(int fd, std::span<const std::byte> bytes, uint64_t offset) {
  uint64_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put =
        ::pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return ErrorFromErrno(errno, "write of a data file");
    if (put == 0) return Error(ErrorCode::kIo, "write of a data file: nothing was written");
    done += static_cast<uint64_t>(put);
  }
  return {};
}

bool AllZero(std::span<const std::byte> bytes) {
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

Result<void> PunchHole(int fd, uint64_t offset, uint64_t length) {
  if (length == 0) return {};
  if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(length)) == 0) {
    return {};
  }
  if (errno != EOPNOTSUPP) return ErrorFromErrno(errno, "hole in a data file");
  return WriteAt(fd, std::vector<std::byte>(length), offset);
}

StatSignature StatSignature::Of(const struct stat& status) {
  const auto nanoseconds = [](const timespec& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
  };
  return {.size = static_cast<uint64_t>(status.st_size),
          .mtime_ns = nanoseconds(status.st_mtim),
          .ctime_ns = nanoseconds(status.st_ctim),
          .inode = static_cast<uint64_t>(status.st_ino)};
}

StatSignature StatSignature::OfFile(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? Of(status) : StatSignature{};
}

void StatSignature::Encode(RowWriter& out) const {
  out.U64(size);
  out.U64(mtime_ns);
  out.U64(ctime_ns);
  out.U64(inode);
}

StatSignature StatSignature::Decode(RowReader& in) {
  StatSignature signature;
  signature.size = in.U64();
  signature.mtime_ns = in.U64();
  signature.ctime_ns = in.U64();
  signature.inode = in.U64();
  return signature;
}

}  // namespace quadfs::cache
