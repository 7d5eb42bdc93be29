// Changing the tree: new versions, moves, removals.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "cache/tree_store_impl.h"
#include "transport/base/clock.h"

namespace quadfs::cache {
namespace {

constexpr int kAttempts = 16;  // Somebody may put a file in our way again and again.
constexpr char kForeign[] = "foreign.";

std::string TrashName(uint64_t serial) {
  char name[48];
  std::snprintf(name, sizeof name, "%016llx.%06llx",
                static_cast<unsigned long long>(Clock::System().WallNanoseconds()),  // NOLINT
                static_cast<unsigned long long>(serial & 0xFFFFFF));                 // NOLINT
  return name;
}

bool IsForeign(const std::string& name) { return name.starts_with(kForeign); }

}  // namespace

Result<void> TreeStoreImpl::Apply(int fd, const Placement& placement) {
  // Unprivileged, files belong to the daemon; that is not the file's fault.
  if (::fchown(fd, placement.uid, placement.gid) != 0 && (errno != EPERM || ::geteuid() == 0)) {
    return ErrorFromErrno(errno, "owner of a file of the store");
  }
  if (::fchmod(fd, placement.mode & 07777U) != 0) {
    return ErrorFromErrno(errno, "mode of a file of the store");
  }
  constexpr int64_t kSecond = 1'000'000'000;
  int64_t seconds = placement.mtime_ns / kSecond;
  int64_t rest = placement.mtime_ns % kSecond;
  if (rest < 0) {
    --seconds;
    rest += kSecond;
  }
  const struct timespec times[2] = {{0, UTIME_OMIT}, {seconds, rest}};
  if (::futimens(fd, times) != 0) return ErrorFromErrno(errno, "mtime of a file of the store");
  return {};
}

void TreeStoreImpl::ForgetDisplaced(const ObjectId& object, uint64_t file_inode) {
  MutexLock lock(LockFor(object.inode));
  const auto row = Row(object.inode);
  if (!row.ok() || row->signature.inode != file_inode) return;
  ForgetOpen({object.inode, row->generation});
  if (auto erased = index_.Erase(HeldRow::Key(object.inode)); !erased.ok()) {
    health_.Report(erased.error());
  }
}

Result<void> TreeStoreImpl::SetAside(int directory, const std::string& name) {
  const struct stat status = QUADFS_TRY(StatAt(directory, name));
  if (S_ISDIR(status.st_mode)) {
    return Error(ErrorCode::kIsDirectory, "a directory stands at '" + name + "' in the store");
  }
  const auto object = ObjectAt(directory, name);
  const auto row = object ? Row(object->inode) : Error(ErrorCode::kNotFound, "");
  const bool ours = row.ok() && SameContent(row->signature, StatSignature::Of(status));
  const std::string aside = (ours ? "" : kForeign) + TrashName(++serial_);
  if (::renameat(directory, name.c_str(), trash_.get(), aside.c_str()) != 0) {
    return ErrorFromErrno(errno, "setting aside '" + name + "' in the store");
  }
  if (!ours) ++foreign_files_;
  return {};
}

Result<void> TreeStoreImpl::RenameAside(int from_directory, const std::string& from,
                                        int to_directory, const std::string& to) {
  for (int i = 0; i < kAttempts; ++i) {
    if (::renameat2(from_directory, from.c_str(), to_directory, to.c_str(), RENAME_NOREPLACE) ==
        0) {
      return {};
    }
    if (errno == EINVAL || errno == ENOSYS) {  // A file system that knows no flags, such as NFS.
      if (StatAt(to_directory, to).ok()) {
        QUADFS_TRY(SetAside(to_directory, to));
        continue;
      }
      if (::renameat(from_directory, from.c_str(), to_directory, to.c_str()) == 0) return {};
    }
    if (errno != EEXIST) return ErrorFromErrno(errno, "rename to '" + to + "' in the store");
    const auto aside = SetAside(to_directory, to);
    if (!aside.ok() && aside.error().code() != ErrorCode::kNotFound) return aside;
  }
  return Error(ErrorCode::kBusy, "somebody keeps making '" + to + "' in the store");
}

// Over the inode's own older version: by exchange, so that a stranger's file that took its place a
// moment ago is not lost either.
Result<void> TreeStoreImpl::ReplaceOwn(const std::string& name, int directory,
                                       const std::string& target, const IncomingRow& row) {
  if (::renameat2(incoming_.get(), name.c_str(), directory, target.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) {
      return ErrorFromErrno(errno, "rename to '" + target + "' in the store");
    }
    if (::renameat(incoming_.get(), name.c_str(), directory, target.c_str()) != 0) {
      return ErrorFromErrno(errno, "rename to '" + target + "' in the store");
    }
    return {};
  }
  return DropOld(incoming_.get(), name, row.old_signature);
}

Result<void> TreeStoreImpl::DropOld(int directory, const std::string& name,
                                    const StatSignature& left) {
  const struct stat status = QUADFS_TRY(StatAt(directory, name));
  if (!SameContent(StatSignature::Of(status), left)) return SetAside(directory, name);
  if (::unlinkat(directory, name.c_str(), 0) != 0) {
    return ErrorFromErrno(errno, "removal of an older version in the store");
  }
  return {};
}

Result<TreeStoreImpl::Displaced> TreeStoreImpl::PlaceIncoming(const ObjectId& object, int directory,
                                                              const IncomingRow& row) {
  const std::string name = ObjectName(object);
  const std::string& target = row.becomes->place.name;
  const auto standing = StatAt(directory, target);
  if (standing.ok() && S_ISDIR(standing->st_mode)) {
    return Error(ErrorCode::kIsDirectory, "a directory stands at '" + target + "' in the store");
  }
  std::optional<ObjectId> marked;
  if (standing.ok()) marked = ObjectAt(directory, target);
  if (IsFileOf(object.inode, row.old_signature, directory, target)) {
    QUADFS_TRY(ReplaceOwn(name, directory, target, row));
    return Displaced();
  }
  QUADFS_TRY(RenameAside(incoming_.get(), name, directory, target));
  return marked ? Displaced({*marked, standing->st_ino}) : Displaced();
}

Result<void> TreeStoreImpl::Adopt(const ObjectId& object, int fd, IncomingRow row,
                                  const Manifest& manifest, const TreePath& path) {
  const std::shared_lock<std::shared_mutex> structure(structure_);
  const UniqueFd directory = QUADFS_TRY(root_.MakeDirectories(path.directories));
  const uint64_t directory_id = QUADFS_TRY(directories_.FindOrAdd(path.directories));
  HeldRow held;
  held.generation = object.generation;
  held.place = {directory_id, path.name};
  held.size_bytes = manifest.size_bytes();
  held.root = row.root;
  held.signature = StatSignature::OfFile(fd);
  if (manifest.block_count() <= HeldRow::kInlineBlocks) {
    held.manifest.emplace();
    for (uint64_t i = 0; i < manifest.block_count(); ++i)
      held.manifest->push_back(manifest.block(i));
  } else {
    QUADFS_TRY(WriteManifest(object, manifest));
  }
  row.becomes = held;
  std::optional<ObjectId> old;
  Displaced displaced;
  {
    MutexLock lock(LockFor(object.inode));
    if (const auto before = Row(object.inode); before.ok()) {
      row.old_signature = before->signature;
      row.old_place = before->place;
      old = {object.inode, before->generation};
    }
    QUADFS_TRY(index_.Put(IncomingRow::Key(object), row.Encode()));
    displaced = QUADFS_TRY(PlaceIncoming(object, directory.get(), row));
    QUADFS_TRY(SyncFile(directory.get(), "a directory of the store"));
    QUADFS_TRY(FinishAdopt(object, row));
  }
  // One inode is locked at a time: a crash before this leaves a row that finds no file.
  if (displaced) ForgetDisplaced(displaced->first, displaced->second);
  if (old && *old != object) {
    ForgetOpen(*old);
    RemoveManifest(*old);
  }
  return {};
}

// The file is at its place: the older version elsewhere goes, and the row says so.
Result<void> TreeStoreImpl::FinishAdopt(const ObjectId& object, const IncomingRow& row) {
  if (row.old_signature.inode != 0 && row.old_place != row.becomes->place) {
    const auto directory = DirectoryOf(row.old_place);
    if (directory.ok() &&
        IsFileOf(object.inode, row.old_signature, directory->get(), row.old_place.name)) {
      QUADFS_TRY(DropOld(directory->get(), row.old_place.name, row.old_signature));
    }
  }
  QUADFS_TRY(
      index_.Move(IncomingRow::Key(object), HeldRow::Key(object.inode), row.becomes->Encode()));
  return index_.Sync();
}

Result<void> TreeStoreImpl::MoveFile(InodeId inode, const std::string& new_path) {
  const TreePath to = QUADFS_TRY(TreePath::Parse(new_path));
  const std::shared_lock<std::shared_mutex> structure(structure_);
  HeldRow row;
  MoveRow move;
  const std::string intent = std::string(kFileMovePrefix) + KeyNumber(inode.value);
  const UniqueFd new_directory = QUADFS_TRY(root_.MakeDirectories(to.directories));
  const uint64_t directory_id = QUADFS_TRY(directories_.FindOrAdd(to.directories));
  std::optional<ObjectId> displaced;
  uint64_t displaced_inode = 0;
  {
    MutexLock lock(LockFor(inode));
    row = QUADFS_TRY(Row(inode));
    move = {.from = row.place, .to = {directory_id, to.name}, .file_inode = row.signature.inode};
    if (move.from == move.to) return {};
    const auto standing = StatAt(new_directory.get(), to.name);
    const auto old_directory = DirectoryOf(row.place);
    if (!old_directory.ok() ||
        !IsFileOf(inode, row.signature, old_directory->get(), row.place.name)) {
      // Moved before, by us or by an admin's mv: then only the row is behind.
      if (!IsFileOf(inode, row.signature, new_directory.get(), to.name)) {
        return Error(ErrorCode::kStale, "the file is not at its place in the store");
      }
      row.place = move.to;
      QUADFS_TRY(index_.Put(HeldRow::Key(inode), row.Encode()));
      return index_.Sync();
    }
    if (standing.ok()) {
      displaced = ObjectAt(new_directory.get(), to.name);
      displaced_inode = standing->st_ino;
    }
    QUADFS_TRY(index_.Put(intent, move.Encode()));
    auto renamed = RenameAside(old_directory->get(), row.place.name, new_directory.get(), to.name);
    if (!renamed.ok()) {
      static_cast<void>(index_.Erase(intent));
      return renamed;
    }
    QUADFS_TRY(SyncFile(new_directory.get(), "a directory of the store"));
    QUADFS_TRY(SyncFile(old_directory->get(), "a directory of the store"));
    row.place = move.to;
    QUADFS_TRY(index_.Move(intent, HeldRow::Key(inode), row.Encode()));
    QUADFS_TRY(index_.Sync());
  }
  if (displaced) ForgetDisplaced(*displaced, displaced_inode);
  return {};
}

Result<void> TreeStoreImpl::MoveDirectory(const std::string& old_path,
                                          const std::string& new_path) {
  const TreePath from = QUADFS_TRY(TreePath::Parse(old_path));
  const TreePath to = QUADFS_TRY(TreePath::Parse(new_path));
  if (old_path == new_path) return {};
  if (new_path.starts_with(old_path + "/")) {
    return Error(ErrorCode::kInvalidArgument, "a directory cannot move into itself");
  }
  const std::unique_lock<std::shared_mutex> structure(structure_);
  return RenameDirectory(from, to);
}

Result<void> TreeStoreImpl::RenameDirectory(const TreePath& from, const TreePath& to) {
  const auto old_parent = root_.OpenDirectory(from.directories);
  if (!old_parent.ok()) {
    if (old_parent.error().code() == ErrorCode::kNotFound) return {};
    return old_parent.error();
  }
  const auto source = TreeRoot::OpenBelow(old_parent->get(), from.name, O_PATH | O_DIRECTORY);
  if (!source.ok()) {
    if (source.error().code() == ErrorCode::kNotFound) return {};
    return source.error();
  }
  struct stat status {};
  if (::fstat(source->get(), &status) != 0) return ErrorFromErrno(errno, "stat of a directory");
  const UniqueFd new_parent = QUADFS_TRY(root_.MakeDirectories(to.directories));
  if (const auto standing = StatAt(new_parent.get(), to.name);
      standing.ok() && !S_ISDIR(standing->st_mode)) {
    QUADFS_TRY(SetAside(new_parent.get(), to.name));
  }
  const auto moved = directories_.Find(from.All());
  MoveRow move;
  std::string intent;
  if (moved) {
    const uint64_t parent = QUADFS_TRY(directories_.FindOrAdd(to.directories));
    move = {.from = directories_.PlaceOf(*moved).value_or(Place{}),
            .to = {parent, to.name},
            .file_inode = status.st_ino,
            .replaced_directory = directories_.Find(to.All()).value_or(0)};
    intent = std::string(kDirectoryMovePrefix) + KeyNumber(*moved);
    QUADFS_TRY(index_.Put(intent, move.Encode()));
    QUADFS_TRY(index_.Sync());
  }
  if (::renameat(old_parent->get(), from.name.c_str(), new_parent.get(), to.name.c_str()) != 0) {
    const int failed = errno;
    if (moved) static_cast<void>(index_.Erase(intent));
    if (failed == EEXIST || failed == ENOTEMPTY) {
      return Error(ErrorCode::kNotEmpty, "'" + to.name + "' in the store has entries");
    }
    return ErrorFromErrno(failed, "rename of '" + from.name + "' in the store");
  }
  QUADFS_TRY(SyncFile(new_parent.get(), "a directory of the store"));
  QUADFS_TRY(SyncFile(old_parent->get(), "a directory of the store"));
  if (!moved) return {};
  if (move.replaced_directory != 0) QUADFS_TRY(directories_.Removed(move.replaced_directory));
  QUADFS_TRY(directories_.Moved(*moved, move.to, intent));
  return index_.Sync();
}

Result<void> TreeStoreImpl::MakeDirectory(const std::string& path, uint32_t mode, uint32_t uid,
                                          uint32_t gid) {
  const TreePath parsed = QUADFS_TRY(TreePath::Parse(path));
  const std::shared_lock<std::shared_mutex> structure(structure_);
  const UniqueFd directory = QUADFS_TRY(root_.MakeDirectories(parsed.All()));
  if (::fchown(directory.get(), uid, gid) != 0 && (errno != EPERM || ::geteuid() == 0)) {
    return ErrorFromErrno(errno, "owner of a directory of the store");
  }
  if (::fchmod(directory.get(), mode & 07777U) != 0) {
    return ErrorFromErrno(errno, "mode of a directory of the store");
  }
  return SyncFile(directory.get(), "a directory of the store");
}

Result<void> TreeStoreImpl::RemoveDirectory(const std::string& path) {
  const TreePath parsed = QUADFS_TRY(TreePath::Parse(path));
  const std::unique_lock<std::shared_mutex> structure(structure_);
  const auto parent = root_.OpenDirectory(parsed.directories);
  if (!parent.ok() && parent.error().code() != ErrorCode::kNotFound) return parent.error();
  if (parent.ok()) {
    if (::unlinkat(parent->get(), parsed.name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      if (errno == EEXIST) errno = ENOTEMPTY;
      return ErrorFromErrno(errno, "removal of directory '" + parsed.name + "' in the store");
    }
    QUADFS_TRY(SyncFile(parent->get(), "a directory of the store"));
  }
  if (const auto number = directories_.Find(parsed.All())) {
    QUADFS_TRY(directories_.Removed(*number));
    return index_.Sync();
  }
  return {};
}

Result<void> TreeStoreImpl::SetAttributes(InodeId inode, const Placement& placement) {
  const std::shared_lock<std::shared_mutex> structure(structure_);
  MutexLock lock(LockFor(inode));
  HeldRow row = QUADFS_TRY(Row(inode));
  const UniqueFd directory = QUADFS_TRY(DirectoryOf(row.place));
  const UniqueFd fd =
      QUADFS_TRY(TreeRoot::OpenBelow(directory.get(), row.place.name, O_RDONLY | O_NONBLOCK));
  StatSignature now = StatSignature::OfFile(fd.get());
  if (now.inode != row.signature.inode || now.mtime_ns != row.signature.mtime_ns) {
    return Error(ErrorCode::kStale, "the file in the store was changed by somebody");
  }
  QUADFS_TRY(Apply(fd.get(), placement));
  QUADFS_TRY(SyncFile(fd.get(), "a file of the store"));
  row.signature = StatSignature::OfFile(fd.get());
  QUADFS_TRY(index_.Put(HeldRow::Key(inode), row.Encode()));
  return index_.Sync();
}

Result<void> TreeStoreImpl::Remove(InodeId inode) {
  const std::shared_lock<std::shared_mutex> structure(structure_);
  MutexLock lock(LockFor(inode));
  const auto row = Row(inode);
  if (!row.ok()) {
    if (row.error().code() == ErrorCode::kNotFound) return {};
    return row.error();
  }
  const auto directory = DirectoryOf(row->place);
  if (directory.ok()) {
    // Another file in its place is not ours to remove.
    if (IsFileOf(inode, row->signature, directory->get(), row->place.name)) {
      QUADFS_TRY(SetAside(directory->get(), row->place.name));
      QUADFS_TRY(SyncFile(trash_.get(), "the store's trash"));
      QUADFS_TRY(SyncFile(directory->get(), "a directory of the store"));
    }
  }
  const ObjectId object{inode, row->generation};
  ForgetOpen(object);
  RemoveManifest(object);
  QUADFS_TRY(index_.Erase(HeldRow::Key(inode)));
  return index_.Sync();
}

Result<void> TreeStoreImpl::PurgeTrash(int64_t older_than_ns) {
  const auto limit = static_cast<uint64_t>(older_than_ns);
  for (const std::string& name : QUADFS_TRY(ListDirectory(trash_.get()))) {
    if (IsForeign(name)) continue;
    char* end = nullptr;
    const uint64_t time = std::strtoull(name.c_str(), &end, 16);
    if (*end == '.' && time < limit) ::unlinkat(trash_.get(), name.c_str(), 0);
  }
  foreign_files_ = CountForeign();
  for (const std::string& name : QUADFS_TRY(ListDirectory(incoming_.get()))) {
    const auto object = ParseObjectName(name);
    const auto status = StatAt(incoming_.get(), name);
    if (!object.ok() || !status.ok() || StatSignature::Of(*status).mtime_ns >= limit) continue;
    MutexLock lock(incoming_mutex_);
    const auto active = uploads_.find(*object);
    if (active != uploads_.end() && !active->second.expired()) continue;
    ::unlinkat(incoming_.get(), name.c_str(), 0);
    QUADFS_TRY(index_.Erase(IncomingRow::Key(*object)));
  }
  return {};
}

uint64_t TreeStoreImpl::CountForeign() const {
  uint64_t count = 0;
  const auto names = ListDirectory(trash_.get());
  if (!names.ok()) return 0;
  for (const std::string& name : *names) count += IsForeign(name) ? 1 : 0;
  return count;
}

}  // namespace quadfs::cache
