#include "cache/tree_path.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace quadfs::cache {
namespace {

constexpr size_t kMaxName = 255;
constexpr size_t kMaxDepth = 1024;
constexpr size_t kMaxStep = 2048;  // Bytes resolved at once; the kernel takes 4095.
constexpr int kMaxRetries = 64;    // openat2 asks to try again when a rename goes on meanwhile.

Error InTheWay(int errno_value, const std::string& name) {
  if (errno_value == ELOOP || errno_value == EXDEV) {
    return Error(ErrorCode::kPermission,
                 "a symbolic link stands in the way at '" + name + "' in the store: remove it");
  }
  return ErrorFromErrno(errno_value, "open of '" + name + "' in the store");
}

}  // namespace

Result<TreePath> TreePath::Parse(const std::string& path) {
  const auto wrong = [&](const char* why) {
    return Error(ErrorCode::kInvalidArgument,
                 "path '" + path.substr(0, 200) + "' in the store: " + why);
  };
  if (path.empty()) return wrong("is empty");
  if (path.find('\0') != std::string::npos) return wrong("has a zero byte");
  TreePath parsed;
  for (size_t begin = 0;;) {
    const size_t slash = path.find('/', begin);
    std::string part = path.substr(begin, slash == std::string::npos ? slash : slash - begin);
    if (part.empty()) return wrong("has an empty component");
    if (part == "." || part == "..") return wrong("has a '.' or '..' component");
    if (part.size() > kMaxName) {
      return Error(ErrorCode::kNameTooLong, "a name in the store has more than 255 bytes");
    }
    if (begin == 0 && part == kPrivateDirectory) return wrong("is the store's own");
    if (slash == std::string::npos) {
      parsed.name = std::move(part);
      return parsed;
    }
    parsed.directories.push_back(std::move(part));
    if (parsed.directories.size() > kMaxDepth) return wrong("is too deep");
    begin = slash + 1;
  }
}

std::vector<std::string> TreePath::All() const {
  std::vector<std::string> all = directories;
  all.push_back(name);
  return all;
}

Result<UniqueFd> TreeRoot::OpenBelow(int directory, const std::string& name, int flags) {
  struct open_how how {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  for (int i = 0; i < kMaxRetries; ++i) {
    UniqueFd fd(
        static_cast<int>(::syscall(SYS_openat2, directory, name.c_str(), &how, sizeof how)));
    if (fd) return fd;
    if (errno != EAGAIN && errno != EINTR) break;
  }
  return InTheWay(errno, name);
}

Result<UniqueFd> TreeRoot::OpenDirectory(const std::vector<std::string>& components) const {
  UniqueFd current = QUADFS_TRY(OpenBelow(root_.get(), ".", O_RDONLY | O_DIRECTORY));
  std::string step;
  for (size_t i = 0; i < components.size(); ++i) {
    if (!step.empty()) step += '/';
    step += components[i];
    if (i + 1 < components.size() && step.size() + components[i + 1].size() < kMaxStep) continue;
    current = QUADFS_TRY(OpenBelow(current.get(), step, O_RDONLY | O_DIRECTORY));
    step.clear();
  }
  return current;
}

Result<UniqueFd> TreeRoot::MakeDirectories(const std::vector<std::string>& components) const {
  auto whole = OpenDirectory(components);
  if (whole.ok() || whole.error().code() != ErrorCode::kNotFound) return whole;
  UniqueFd current = QUADFS_TRY(OpenBelow(root_.get(), ".", O_RDONLY | O_DIRECTORY));
  for (const std::string& component : components) {
    if (::mkdirat(current.get(), component.c_str(), 0755) == 0) {
      QUADFS_TRY(SyncFile(current.get(), "a directory of the store"));
    } else if (errno != EEXIST) {
      return ErrorFromErrno(errno, "new directory '" + component + "' in the store");
    }
    current = QUADFS_TRY(OpenBelow(current.get(), component, O_RDONLY | O_DIRECTORY));
  }
  return current;
}

Result<struct stat> StatAt(int directory, const std::string& name) {
  struct stat status {};
  if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return ErrorFromErrno(errno, "stat of '" + name + "' in the store");
  }
  return status;
}

Result<void> SyncFile(int fd, const std::string& what) {
  if (::fsync(fd) != 0) return ErrorFromErrno(errno, "fsync of " + what);
  return {};
}

}  // namespace quadfs::cache
