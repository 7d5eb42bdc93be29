#include "transport/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "transport/base/random.h"
#include "transport/base/unique_fd.h"

namespace quadfs::transport {
namespace {

Result<void> WriteAll(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrorFromErrno(errno, "write " + path);
    content.remove_prefix(static_cast<size_t>(written));
  }
  if (::fsync(fd) != 0) return ErrorFromErrno(errno, "fsync " + path);
  return {};
}

Result<void> SyncDirectoryOf(const std::string& path) {
  std::string directory = std::filesystem::path(path).parent_path().string();
  if (directory.empty()) directory = ".";
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return ErrorFromErrno(errno, "fsync " + directory);
  return {};
}

}  // namespace

Result<void> CreateFileExclusively(const std::string& path, std::string_view content, mode_t mode) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd) return ErrorFromErrno(errno, "create " + path);
  auto written = WriteAll(fd.get(), content, path);
  if (written.ok()) written = SyncDirectoryOf(path);
  if (!written.ok()) ::unlink(path.c_str());
  return written;
}

Result<void> ReplaceFile(const std::string& path, std::string_view content, mode_t mode) {
  const std::string beside = path + "." + RandomHex(8) + ".new";
  if (auto made = CreateFileExclusively(beside, content, mode); !made.ok()) return made;
  if (::rename(beside.c_str(), path.c_str()) != 0) {
    const int why = errno;
    ::unlink(beside.c_str());
    return ErrorFromErrno(why, "rename to " + path);
  }
  return SyncDirectoryOf(path);
}

Result<std::string> ReadSmallFile(const std::string& path, size_t limit_bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return ErrorFromErrno(errno, "open " + path);
  std::string content(limit_bytes + 1, '\0');
  size_t size = 0;
  while (size < content.size()) {
    const ssize_t got = ::read(fd.get(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrorFromErrno(errno, "read " + path);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > limit_bytes) {
    return Error(ErrorCode::kTooLarge,
                 path + ": larger than " + std::to_string(limit_bytes) + " bytes");
  }
  content.resize(size);
  return content;
}

Result<void> MakePrivateDirectory(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::error_code failed;
  if (!parent.empty()) std::filesystem::create_directories(parent, failed);
  if (failed) return ErrorFromErrno(failed.value(), "create " + parent.string());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrorFromErrno(errno, "create " + path);
  }
  return {};
}

Result<void> CheckPrivate(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return Error(ErrorCode::kInvalidArgument, ErrorFromErrno(errno, path).message());
  }
  if ((status.st_mode & 077U) != 0) {
    return Error(ErrorCode::kInvalidArgument,
                 path + ": others may use this private key; run: chmod 600 " + path);
  }
  return {};
}

}  // namespace quadfs::transport
