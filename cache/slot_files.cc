#include "cache/slot_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "cache/file_io.h"
#include "transport/base/random.h"

namespace quadfs::cache {
namespace {

constexpr int kSubdirectories = 256;
constexpr char kIdentityFile[] = "identity";

std::string Subdirectory(int number) {
  char name[4];
  std::snprintf(name, sizeof name, "%02x", static_cast<unsigned>(number) & 0xFFU);
  return name;
}

Result<UniqueFd> MakeDirectory(int parent, const std::string& name, const std::string& what) {
  if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrorFromErrno(errno, "cannot make the cache directory " + what);
  }
  UniqueFd fd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return ErrorFromErrno(errno, "cannot open the cache directory " + what);
  return fd;
}

}  // namespace

SlotFiles::SlotFiles(SlotFiles&& other) noexcept = default;

std::string SlotFiles::NameOf(uint64_t slot) {
  char name[32];
  std::snprintf(name, sizeof name, "%02x/%016llx", static_cast<unsigned>(DirectoryOf(slot)),
                static_cast<unsigned long long>(slot));  // NOLINT: printf has no uint64_t
  return name;
}

Result<SlotFiles> SlotFiles::Open(const std::string& directory) {
  SlotFiles files;
  files.directory_ = directory;
  for (size_t slash = 1; slash != std::string::npos && !directory.empty();) {
    slash = directory.find('/', slash + 1);
    const std::string part = directory.substr(0, slash);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return ErrorFromErrno(errno, "cannot make the cache directory " + part);
    }
  }
  files.root_.Reset(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!files.root_) return ErrorFromErrno(errno, "cannot open the cache directory " + directory);
  if (::flock(files.root_.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error(ErrorCode::kBusy,
                 "the cache directory " + directory +
                     " is in use by another process: stop it, or use another one");
  }
  if (::fchmod(files.root_.get(), 0700) != 0) {
    return ErrorFromErrno(errno, "cannot protect the cache directory " + directory);
  }
  files.slots_ = QUADFS_TRY(MakeDirectory(files.root_.get(), "slots", directory + "/slots"));
  for (int i = 0; i < kSubdirectories; ++i) {
    if (::mkdirat(files.slots_.get(), Subdirectory(i).c_str(), 0700) != 0 && errno != EEXIST) {
      return ErrorFromErrno(errno, "cannot make a directory below " + directory + "/slots");
    }
  }
  ::fsync(files.slots_.get());
  ::fsync(files.root_.get());
  return files;
}

Result<UniqueFd> SlotFiles::Create(uint64_t slot) const {
  UniqueFd fd(::openat(slots_.get(), NameOf(slot).c_str(),
                       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return ErrorFromErrno(errno, "new cache file in " + directory_);
  return fd;
}

Result<UniqueFd> SlotFiles::OpenSlot(uint64_t slot) const {
  UniqueFd fd(::openat(slots_.get(), NameOf(slot).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return ErrorFromErrno(errno, "open of cache file " + PathOf(slot));
  return fd;
}

void SlotFiles::Remove(uint64_t slot) const { ::unlinkat(slots_.get(), NameOf(slot).c_str(), 0); }

Result<void> SlotFiles::SyncDirectoryOf(uint64_t slot) const {
  const UniqueFd fd(::openat(slots_.get(), Subdirectory(DirectoryOf(slot)).c_str(),
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return ErrorFromErrno(errno, "sync of a cache directory");
  return {};
}

Result<void> SlotFiles::SetAside(uint64_t slot) const {
  const UniqueFd lost = QUADFS_TRY(MakeDirectory(root_.get(), "lost", directory_ + "/lost"));
  const std::string name = NameOf(slot);
  const std::string aside = name.substr(3) + "." + RandomHex(4);
  if (::renameat(slots_.get(), name.c_str(), lost.get(), aside.c_str()) != 0) {
    return ErrorFromErrno(errno, "setting aside " + PathOf(slot));
  }
  return {};
}

Result<std::vector<uint64_t>> SlotFiles::List() const {
  std::vector<uint64_t> slots;
  for (int i = 0; i < kSubdirectories; ++i) {
    UniqueFd fd(
        ::openat(slots_.get(), Subdirectory(i).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return ErrorFromErrno(errno, "open of " + directory_ + "/slots/" + Subdirectory(i));
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), ::closedir);
    if (!stream) return ErrorFromErrno(errno, "listing of " + directory_);
    fd.Release();
    while (const dirent* entry = ::readdir(stream.get())) {
      const std::string name = entry->d_name;
      char* end = nullptr;
      const uint64_t slot = std::strtoull(name.c_str(), &end, 16);
      if (name.size() == 16 && *end == '\0' && NameOf(slot) == Subdirectory(i) + "/" + name) {
        slots.push_back(slot);
      }
    }
  }
  std::sort(slots.begin(), slots.end());
  return slots;
}

std::string SlotFiles::PathOf(uint64_t slot) const { return directory_ + "/slots/" + NameOf(slot); }

bool SlotFiles::SyncAll() const { return ::syncfs(slots_.get()) == 0; }

uint64_t SlotFiles::FreeBytes() const {
  struct statvfs status {};
  if (::fstatvfs(slots_.get(), &status) != 0) return ~uint64_t{0};
  return static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
}

Result<std::string> SlotFiles::Identity() const {
  std::vector<std::byte> buffer(64);
  UniqueFd fd(::openat(root_.get(), kIdentityFile, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (fd) {
    const uint64_t size = QUADFS_TRY(ReadAt(fd.get(), buffer, 0));
    if (size == 32) return std::string(reinterpret_cast<const char*>(buffer.data()), size);
  }
  const std::string identity = RandomHex(16);
  fd.Reset(::openat(root_.get(), "identity.new",
                    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return ErrorFromErrno(errno, "writing " + directory_ + "/identity");
  QUADFS_TRY(WriteAt(fd.get(), AsBytes(identity), 0));
  if (::fsync(fd.get()) != 0 ||
      ::renameat(root_.get(), "identity.new", root_.get(), kIdentityFile) != 0 ||
      ::fsync(root_.get()) != 0) {
    return ErrorFromErrno(errno, "writing " + directory_ + "/identity");
  }
  return identity;
}

}  // namespace quadfs::cache
