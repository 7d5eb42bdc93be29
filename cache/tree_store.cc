// Opening and reading.
#include "cache/tree_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cache/tree_incoming.h"
#include "cache/tree_store_impl.h"

namespace quadfs::cache {
namespace {

constexpr char kObjectAttribute[] = "user.quadfs.object";

}  // namespace

bool SameContent(const StatSignature& a, const StatSignature& b) {
  return a.size == b.size && a.mtime_ns == b.mtime_ns && a.inode == b.inode;
}

Result<std::vector<std::string>> ListDirectory(int directory) {
  UniqueFd copy(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!copy) return ErrorFromErrno(errno, "listing of a directory of the store");
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(copy.get()), ::closedir);
  if (!stream) return ErrorFromErrno(errno, "listing of a directory of the store");
  copy.Release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

TreeStoreImpl::TreeStoreImpl(UniqueFd root, IndexStore& index)
    : root_(std::move(root)), index_(index), directories_(index) {}

void TreeStoreImpl::Mark(int fd, const ObjectId& object, const Checksum& root) const {
  if (!has_attributes_) return;
  const std::string value = ObjectName(object) + " " + root.ToHex();
  // Without it the index alone knows: the file is then taken for foreign where the index is lost.
  if (::fsetxattr(fd, kObjectAttribute, value.data(), value.size(), 0) != 0) {
    health_.Report(ErrorFromErrno(errno, "marking a file of the store"));
  }
}

std::optional<ObjectId> TreeStoreImpl::ObjectAt(int directory, const std::string& name) const {
  if (!has_attributes_) return std::nullopt;
  const auto fd = TreeRoot::OpenBelow(directory, name, O_RDONLY | O_NONBLOCK);
  if (!fd.ok()) return std::nullopt;
  char value[128];
  const ssize_t size = ::fgetxattr(fd->get(), kObjectAttribute, value, sizeof value);
  if (size < 33) return std::nullopt;
  const auto object = ParseObjectName(std::string_view(value, 33));
  if (!object.ok()) return std::nullopt;
  return *object;
}

bool TreeStoreImpl::IsFileOf(InodeId inode, const StatSignature& left, int directory,
                             const std::string& name) const {
  const auto status = StatAt(directory, name);
  if (!status.ok() || !S_ISREG(status->st_mode)) return false;
  if (SameContent(StatSignature::Of(*status), left)) return true;
  const auto marked = ObjectAt(directory, name);
  return marked && marked->inode == inode;
}

Result<HeldRow> TreeStoreImpl::Row(InodeId inode) const {
  const auto stored = index_.Get(HeldRow::Key(inode));
  if (!stored.ok() && stored.error().code() == ErrorCode::kNotFound) {
    return Error(ErrorCode::kNotFound, "the store does not hold this file");
  }
  if (!stored.ok()) return stored.error();
  return HeldRow::Decode(*stored);
}

bool TreeStoreImpl::Holds(const ObjectId& object) const {
  const auto row = Row(object.inode);
  return row.ok() && row->generation == object.generation;
}

std::optional<Generation> TreeStoreImpl::HeldGeneration(InodeId inode) const {
  const auto row = Row(inode);
  if (!row.ok()) return std::nullopt;
  return row->generation;
}

Result<std::string> TreeStoreImpl::HeldPath(InodeId inode) const {
  const HeldRow row = QUADFS_TRY(Row(inode));
  const auto directories = directories_.PathOf(row.place.directory);
  if (!directories) return Error(ErrorCode::kNotFound, "the file's directory is gone");
  std::string path;
  for (const std::string& name : *directories) path += name + "/";
  return path + row.place.name;
}

Result<UniqueFd> TreeStoreImpl::DirectoryOf(const Place& place) const {
  const auto components = directories_.PathOf(place.directory);
  if (!components) return Error(ErrorCode::kNotFound, "a directory of the store is gone");
  return root_.OpenDirectory(*components);
}

Result<UniqueFd> TreeStoreImpl::OpenRow(const ObjectId& object, const HeldRow& row) const {
  const auto stale = [&](const char* what) {
    return Error(ErrorCode::kStale, "object " + ObjectName(object) + " in the store " + what);
  };
  const auto directory = DirectoryOf(row.place);
  if (!directory.ok() && directory.error().code() == ErrorCode::kIo) return directory.error();
  if (!directory.ok()) return stale("is not at its place");
  auto fd = TreeRoot::OpenBelow(directory->get(), row.place.name, O_RDONLY | O_NONBLOCK);
  if (!fd.ok() && fd.error().code() == ErrorCode::kIo) return fd;
  if (!fd.ok()) return stale("is not at its place");
  struct stat status {};
  if (::fstat(fd->get(), &status) != 0) return ErrorFromErrno(errno, "stat of a file of the store");
  const StatSignature now = StatSignature::Of(status);
  if (SameContent(now, row.signature)) return fd;
  if (!S_ISREG(status.st_mode) || now.size != row.size_bytes)
    return stale("was changed by somebody");
  {
    MutexLock lock(open_mutex_);
    const auto known = stale_.find(object.inode);
    if (known != stale_.end() && known->second == now) return stale("was changed by somebody");
  }
  QUADFS_TRY(CheckContent(object, row, fd->get()));
  return fd;
}

// The signature changed: only the content can tell.
Result<void> TreeStoreImpl::CheckContent(const ObjectId& object, const HeldRow& row, int fd) const {
  const StatSignature before = StatSignature::OfFile(fd);
  const auto content = Manifest::OfFile(fd, row.size_bytes);
  if (!content.ok() && content.error().code() != ErrorCode::kStale) return content.error();
  if (!content.ok() || content->Root() != row.root) {
    MutexLock lock(open_mutex_);
    if (stale_.size() >= kKnownStale) stale_.clear();
    stale_[object.inode] = before;
    return Error(ErrorCode::kStale,
                 "object " + ObjectName(object) + " in the store was changed by somebody");
  }
  MutexLock lock(LockFor(object.inode));
  auto now = Row(object.inode);
  if (!now.ok() || now->generation != object.generation) return {};
  now->signature = before;
  return index_.Put(HeldRow::Key(object.inode), now->Encode());
}

Result<UniqueFd> TreeStoreImpl::OpenObject(const ObjectId& object) const {
  const HeldRow row = QUADFS_TRY(Row(object.inode));
  if (row.generation != object.generation) {
    return Error(ErrorCode::kNotFound, "the store holds another version of this file");
  }
  return OpenRow(object, row);
}

std::string TreeStoreImpl::ManifestName(const ObjectId& object) {
  const std::string name = ObjectName(object);
  return name.substr(14, 2) + "/" + name;
}

Result<void> TreeStoreImpl::WriteManifest(const ObjectId& object, const Manifest& manifest) const {
  const std::string name = ManifestName(object);
  const std::string part = name + ".new";
  if (::mkdirat(manifests_.get(), name.substr(0, 2).c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrorFromErrno(errno, "new directory for manifests in the store");
  }
  const UniqueFd fd(::openat(manifests_.get(), part.c_str(),
                             O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return ErrorFromErrno(errno, "new manifest in the store");
  QUADFS_TRY(WriteAt(fd.get(), AsBytes(manifest.Serialize()), 0));
  QUADFS_TRY(SyncFile(fd.get(), "a manifest"));
  if (::renameat(manifests_.get(), part.c_str(), manifests_.get(), name.c_str()) != 0) {
    return ErrorFromErrno(errno, "new manifest in the store");
  }
  return {};
}

void TreeStoreImpl::RemoveManifest(const ObjectId& object) const {
  ::unlinkat(manifests_.get(), ManifestName(object).c_str(), 0);
}

Result<Manifest> TreeStoreImpl::ManifestOf(const ObjectId& object, const HeldRow& row,
                                           int fd) const {
  if (row.manifest) {
    Manifest manifest(row.size_bytes, *row.manifest);
    if (manifest.Root() == row.root) return manifest;
  } else if (const auto file =
                 TreeRoot::OpenBelow(manifests_.get(), ManifestName(object), O_RDONLY);
             file.ok()) {
    std::string bytes(BlockCount(row.size_bytes) * 16 + 64, '\0');
    const auto size =
        ReadAt(file->get(), {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}, 0);
    if (size.ok()) {
      auto manifest = Manifest::Parse(std::string_view(bytes).substr(0, *size));
      if (manifest.ok() && manifest->Root() == row.root) return manifest;
    }
  }
  // Lost or damaged: the content gives it again, and the root in the row vouches for it.
  Manifest manifest = QUADFS_TRY(Manifest::OfFile(fd, row.size_bytes));
  if (manifest.Root() != row.root) {
    return Error(ErrorCode::kCorruption, "object " + ObjectName(object) +
                                             " in the store is damaged: repair it from a copy");
  }
  if (!row.manifest) QUADFS_TRY(WriteManifest(object, manifest));
  return manifest;
}

Result<TreeStoreImpl::OpenRef> TreeStoreImpl::OpenShared(const ObjectId& object) const {
  {
    MutexLock lock(open_mutex_);
    for (auto it = open_.begin(); it != open_.end(); ++it) {
      if (it->first != object) continue;
      open_.splice(open_.begin(), open_, it);
      return open_.front().second;
    }
  }
  const HeldRow row = QUADFS_TRY(Row(object.inode));
  if (row.generation != object.generation) {
    return Error(ErrorCode::kNotFound, "the store holds another version of this file");
  }
  auto opened = std::make_shared<OpenFile>();
  opened->fd = QUADFS_TRY(OpenRow(object, row));
  opened->manifest = QUADFS_TRY(ManifestOf(object, row, opened->fd.get()));
  MutexLock lock(open_mutex_);
  open_.emplace_front(object, opened);
  if (open_.size() > kOpenFiles) open_.pop_back();
  return OpenRef(opened);
}

void TreeStoreImpl::ForgetOpen(const ObjectId& object) const {
  MutexLock lock(open_mutex_);
  open_.remove_if([&](const auto& entry) { return entry.first == object; });
  stale_.erase(object.inode);
}

Result<Manifest> TreeStoreImpl::ReadManifest(const ObjectId& object) const {
  return QUADFS_TRY(OpenShared(object))->manifest;
}

Result<std::vector<std::byte>> TreeStoreImpl::ReadBlock(const ObjectId& object,
                                                        uint64_t index) const {
  const OpenRef opened = QUADFS_TRY(OpenShared(object));
  if (index >= opened->manifest.block_count()) {
    return Error(ErrorCode::kNotFound, "block beyond the end of its object");
  }
  std::vector<std::byte> block(opened->manifest.BlockLength(index));
  const uint64_t got = QUADFS_TRY(ReadAt(opened->fd.get(), block, index * kBlockBytes));
  if (got == block.size() && opened->manifest.Matches(index, block)) return block;
  ForgetOpen(object);
  return Error(ErrorCode::kCorruption, "block " + std::to_string(index) + " of object " +
                                           ObjectName(object) + " in the store is damaged");
}

Result<std::shared_ptr<Incoming>> TreeStoreImpl::Begin(const ObjectId& object,
                                                       const Manifest& manifest) {
  if (Holds(object)) return Error(ErrorCode::kExists, "the store holds this version already");
  MutexLock lock(incoming_mutex_);
  if (const auto found = uploads_.find(object); found != uploads_.end()) {
    if (auto upload = found->second.lock(); upload && !upload->ended()) {
      if (upload->manifest() == manifest) return std::shared_ptr<Incoming>(std::move(upload));
      return Error(ErrorCode::kCorruption, "the object is being uploaded with another manifest");
    }
  }
  auto upload = std::make_shared<TreeIncoming>(*this, object, manifest);
  QUADFS_TRY(upload->Open());
  uploads_[object] = upload;
  if (uploads_.size() >= sweep_at_) {
    std::erase_if(uploads_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max(kFewUploads, 2 * uploads_.size());
  }
  return std::shared_ptr<Incoming>(std::move(upload));
}

TreeStore::Status TreeStoreImpl::status() const {
  return {.foreign_files = foreign_files_, .problem = health_.problem()};
}

}  // namespace quadfs::cache
