#include "fs/node/store_reader.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>

#include "cache/manifest.h"

namespace quadfs::fs {
namespace {

constexpr char kFamily[] = "node";  // Of the LocalStore; keys "store/<object>".

std::string SignatureOf(const struct stat& status, const Checksum& root) {
  const auto time = [](const struct timespec& t) {
    return std::to_string(t.tv_sec) + "." + std::to_string(t.tv_nsec);
  };
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) + ":" +
         std::to_string(status.st_size) + ":" + time(status.st_mtim) + ":" + time(status.st_ctim) +
         ":" + root.ToHex();
}

}  // namespace

StoreReader::StoreReader(std::string root, metadata::LocalStore& local) : local_(local) {
  if (!root.empty()) root_.Reset(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

Result<UniqueFd> StoreReader::Open(const metadata::View& view, CampusId campus,
                                   const metadata::Attributes& row) const {
  const auto locations = QUADFS_TRY(view.Locations(row.inode));
  bool held = false;
  for (const metadata::Location& one : locations) {
    held |= one.campus == campus && !one.node && one.generation == row.generation;
  }
  if (!held) return Error(ErrorCode::kNotFound, "not in the campus's store");
  const std::string path = QUADFS_TRY(view.PathOf(row.inode));
  struct open_how how {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  UniqueFd fd(
      static_cast<int>(::syscall(SYS_openat2, root_.get(), path.c_str(), &how, sizeof(how))));
  if (!fd) return Error(ErrorCode::kNotFound, "the store has no " + path);
  QUADFS_TRY(Check(fd.get(), row));
  return fd;
}

Result<void> StoreReader::Check(int fd, const metadata::Attributes& row) const {
  const Error other(ErrorCode::kNotFound, "the store has something else there");
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<uint64_t>(status.st_size) != row.size) {
    return other;
  }
  const std::string key = "store/" + cache::ObjectName({row.inode, row.generation});
  const std::string signature = SignatureOf(status, row.root);
  if (auto known = local_.Get(kFamily, key); known.ok() && *known == signature) return {};
  if (row.size > kCheckAtOnceBytes) return Error(ErrorCode::kNotFound, "too large to check now");
  const cache::Manifest manifest = QUADFS_TRY(cache::Manifest::OfFile(fd, row.size));
  if (manifest.Root() != row.root) return other;
  return local_.Put(kFamily, key, signature);
}

}  // namespace quadfs::fs
