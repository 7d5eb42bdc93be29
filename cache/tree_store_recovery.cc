// Opening a store: what a crash left half-way is finished or undone.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "cache/tree_incoming.h"
#include "cache/tree_store_impl.h"

namespace quadfs::cache {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

Result<Rows> ReadRows(const IndexStore& index, std::string_view prefix) {
  Rows rows;
  QUADFS_TRY(index.Scan(prefix, [&](std::string_view key, std::string_view value) {
    rows.emplace_back(key, value);
    return true;
  }));
  return rows;
}

Result<UniqueFd> MakePrivate(int parent, const char* name) {
  if (::mkdirat(parent, name, 0700) != 0 && errno != EEXIST) {
    return ErrorFromErrno(errno, std::string("new directory .quadfs/") + name + " in the store");
  }
  return TreeRoot::OpenBelow(parent, name, O_RDONLY | O_DIRECTORY);
}

bool HasFile(const Result<UniqueFd>& directory, const std::string& name, uint64_t file_inode) {
  if (!directory.ok()) return false;
  const auto status = StatAt(directory->get(), name);
  return status.ok() && status->st_ino == file_inode;
}

}  // namespace

Result<std::unique_ptr<TreeStore>> TreeStore::Open(const std::string& root, IndexStore& index) {
  UniqueFd fd(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) {
    return ErrorFromErrno(errno, "cannot open the store " + root + " (make the directory first)");
  }
  auto store = std::make_unique<TreeStoreImpl>(std::move(fd), index);
  if (auto started = store->Start(); !started.ok()) {
    return std::move(started).error().Within("store " + root);
  }
  return std::unique_ptr<TreeStore>(std::move(store));
}

Result<void> TreeStoreImpl::Start() {
  private_ = QUADFS_TRY(MakePrivate(root_.fd(), kPrivateDirectory));
  if (::flock(private_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Error(ErrorCode::kBusy, "another process serves it: stop that one first");
  }
  incoming_ = QUADFS_TRY(MakePrivate(private_.get(), "incoming"));
  manifests_ = QUADFS_TRY(MakePrivate(private_.get(), "manifests"));
  trash_ = QUADFS_TRY(MakePrivate(private_.get(), "trash"));
  QUADFS_TRY(SyncFile(private_.get(), "the store's private directory"));
  QUADFS_TRY(SyncFile(root_.fd(), "the store"));
  has_attributes_ = ::fsetxattr(private_.get(), "user.quadfs.store", "1", 1, 0) == 0;
  QUADFS_TRY(directories_.Load());
  QUADFS_TRY(FinishDirectoryMoves());
  QUADFS_TRY(FinishFileMoves());
  QUADFS_TRY(FinishUploads());
  QUADFS_TRY(TidyIncoming());
  foreign_files_ = CountForeign();
  return {};
}

Result<void> TreeStoreImpl::FinishDirectoryMoves() {
  for (const auto& [key, value] : QUADFS_TRY(ReadRows(index_, kDirectoryMovePrefix))) {
    const MoveRow move = QUADFS_TRY(MoveRow::Decode(value));
    const uint64_t directory = KeyNumberAt(key, kDirectoryMovePrefix.size());
    if (!HasFile(DirectoryOf(move.to), move.to.name, move.file_inode)) {
      QUADFS_TRY(index_.Erase(key));  // The rename did not happen.
      continue;
    }
    if (move.replaced_directory != 0) QUADFS_TRY(directories_.Removed(move.replaced_directory));
    QUADFS_TRY(directories_.Moved(directory, move.to, key));
  }
  return {};
}

Result<void> TreeStoreImpl::FinishFileMoves() {
  for (const auto& [key, value] : QUADFS_TRY(ReadRows(index_, kFileMovePrefix))) {
    const MoveRow move = QUADFS_TRY(MoveRow::Decode(value));
    const InodeId inode(KeyNumberAt(key, kFileMovePrefix.size()));
    auto row = Row(inode);
    if (!row.ok() || !HasFile(DirectoryOf(move.to), move.to.name, move.file_inode)) {
      QUADFS_TRY(index_.Erase(key));
      continue;
    }
    row->place = move.to;
    QUADFS_TRY(index_.Move(key, HeldRow::Key(inode), row->Encode()));
  }
  return {};
}

Result<void> TreeStoreImpl::FinishUploads() {
  for (const auto& [key, value] : QUADFS_TRY(ReadRows(index_, kIncomingPrefix))) {
    const ObjectId object{InodeId(KeyNumberAt(key, kIncomingPrefix.size())),
                          Generation(KeyNumberAt(key, kIncomingPrefix.size() + 8))};
    QUADFS_TRY(FinishUpload(object, value));
  }
  return {};
}

Result<void> TreeStoreImpl::FinishUpload(const ObjectId& object, const std::string& value) {
  const std::string name = ObjectName(object);
  auto row = IncomingRow::Decode(value);
  if (!row.ok()) {
    if (row.error().code() == ErrorCode::kInvalidArgument) return row.error();
    return index_.Erase(IncomingRow::Key(object));  // Damaged: the upload begins anew.
  }
  const auto waiting = StatAt(incoming_.get(), name);
  const bool file_waits = waiting.ok() && waiting->st_ino == row->file_inode;
  if (file_waits) return {};  // Resumed by Begin, whether or not it was about to be committed.
  if (!row->becomes) return index_.Erase(IncomingRow::Key(object));
  if (!HasFile(DirectoryOf(row->becomes->place), row->becomes->place.name, row->file_inode)) {
    return index_.Erase(IncomingRow::Key(object));  // Moved away or removed since.
  }
  if (waiting.ok()) {  // What the exchange displaced.
    QUADFS_TRY(DropOld(incoming_.get(), name, row->old_signature));
  }
  return FinishAdopt(object, *row);
}

// Files in `incoming/` that no row names: beginnings of uploads go, anything else is set aside.
Result<void> TreeStoreImpl::TidyIncoming() {
  for (const std::string& name : QUADFS_TRY(ListDirectory(incoming_.get()))) {
    const auto object = ParseObjectName(name);
    if (object.ok() && index_.Get(IncomingRow::Key(*object)).ok()) continue;
    const auto marked = ObjectAt(incoming_.get(), name);
    const auto status = StatAt(incoming_.get(), name);
    const bool upload = object.ok() && status.ok() && S_ISREG(status->st_mode) &&
                        (has_attributes_ ? marked == *object : (status->st_mode & 0777U) == 0600);
    if (upload) {
      ::unlinkat(incoming_.get(), name.c_str(), 0);
    } else if (status.ok() && !S_ISDIR(status->st_mode)) {
      QUADFS_TRY(SetAside(incoming_.get(), name));
    }
  }
  return {};
}

}  // namespace quadfs::cache
