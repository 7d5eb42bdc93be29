#include "fs/daemon/folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace quadfs::daemon {
namespace {

Result<void> Make(const std::string& path, mode_t last) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const bool is_last = slash == std::string::npos;
    const std::string part = path.substr(0, slash);
    if (::mkdir(part.c_str(), is_last ? last : 0755) != 0 && errno != EEXIST) {
      return ErrorFromErrno(errno, "mkdir " + part);
    }
    if (is_last) break;
  }
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return ErrorFromErrno(errno, path);
  if (!S_ISDIR(status.st_mode))
    return Error(ErrorCode::kNotDirectory, path + " is not a directory");
  return {};
}

}  // namespace

Result<void> MakePrivateFolder(const std::string& path) { return Make(path, 0700); }
Result<void> MakeFolder(const std::string& path) { return Make(path, 0755); }

Result<UniqueFd> LockFile(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return ErrorFromErrno(errno, path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrorFromErrno(errno, path);
    std::array<char, 32> pid{};
    const ssize_t count = ::pread(fd.get(), pid.data(), pid.size() - 1, 0);
    std::string who = count > 0 ? pid.data() : "unknown";
    who = who.substr(0, who.find('\n'));
    return Error(ErrorCode::kBusy,
                 "quadfsd runs here already (pid " + who + ", lock " + path + ")");
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd.get(), 0) != 0 ||
      ::pwrite(fd.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return ErrorFromErrno(errno, path);
  }
  return fd;
}

}  // namespace quadfs::daemon
