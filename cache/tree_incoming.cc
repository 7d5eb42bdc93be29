#include "cache/tree_incoming.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace quadfs::cache {

TreeIncoming::TreeIncoming(TreeStoreImpl& store, const ObjectId& object, Manifest manifest)
    : store_(store),
      object_(object),
      manifest_(std::move(manifest)),
      root_(manifest_.Root()),
      here_(manifest_.block_count()),
      durable_(manifest_.block_count()) {}

TreeIncoming::~TreeIncoming() {
  bool record = false;
  {
    MutexLock lock(mutex_);
    record = !ended_ && unrecorded_ > 0;
  }
  if (record) static_cast<void>(Record());  // If it fails, these blocks are sent again.
}

bool TreeIncoming::ended() const {
  MutexLock lock(mutex_);
  return ended_;
}

IncomingRow TreeIncoming::RowNow() const {
  IncomingRow row;
  row.root = root_;
  row.size_bytes = manifest_.size_bytes();
  row.file_inode = file_inode_;
  row.durable = durable_;
  return row;
}

Result<void> TreeIncoming::Open() {
  const std::string name = ObjectName(object_);
  const auto stored = store_.index().Get(IncomingRow::Key(object_));
  if (!stored.ok() && stored.error().code() != ErrorCode::kNotFound) return stored.error();
  if (stored.ok()) {
    const auto row = IncomingRow::Decode(*stored);
    auto fd = TreeRoot::OpenBelow(store_.incoming_directory(), name, O_RDWR);
    struct stat status {};
    if (row.ok() && fd.ok() && ::fstat(fd->get(), &status) == 0 && row->root == root_ &&
        row->size_bytes == manifest_.size_bytes() && row->file_inode == status.st_ino &&
        static_cast<uint64_t>(status.st_size) == row->size_bytes) {
      fd_ = std::move(fd).value();
      file_inode_ = status.st_ino;
      MutexLock lock(mutex_);
      here_ = durable_ = row->durable;
      return {};
    }
    QUADFS_TRY(store_.index().Erase(IncomingRow::Key(object_)));
  }
  ::unlinkat(store_.incoming_directory(), name.c_str(), 0);
  fd_.Reset(::openat(store_.incoming_directory(), name.c_str(),
                     O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat status {};
  if (!fd_ || ::ftruncate(fd_.get(), static_cast<off_t>(manifest_.size_bytes())) != 0 ||
      ::fstat(fd_.get(), &status) != 0) {
    return ErrorFromErrno(errno, "new upload in the store");
  }
  file_inode_ = status.st_ino;
  store_.Mark(fd_.get(), object_, root_);
  return {};
}

std::vector<uint64_t> TreeIncoming::Missing(size_t limit) const {
  std::vector<uint64_t> missing;
  MutexLock lock(mutex_);
  for (uint64_t i = here_.Next(0, /*set=*/false); i < here_.size() && missing.size() < limit;
       i = here_.Next(i + 1, /*set=*/false)) {
    missing.push_back(i);
  }
  return missing;
}

Result<void> TreeIncoming::WriteBlock(uint64_t index, std::span<const std::byte> block) {
  if (index >= manifest_.block_count()) {
    return Error(ErrorCode::kInvalidArgument, "block beyond the end of its object");
  }
  if (!manifest_.Matches(index, block)) {
    return Error(ErrorCode::kCorruption, "block does not match its manifest: send it again");
  }
  {
    MutexLock lock(mutex_);
    if (ended_) return Error(ErrorCode::kStale, "the upload has ended");
    if (here_.Test(index)) return {};
  }
  // The same block twice at once writes the same bytes twice.
  const uint64_t offset = index * kBlockBytes;
  QUADFS_TRY(AllZero(block) ? PunchHole(fd_.get(), offset, block.size())
                            : WriteAt(fd_.get(), block, offset));
  bool record = false;
  {
    MutexLock lock(mutex_);
    if (here_.Set(index)) ++unrecorded_;
    record = unrecorded_ >= kBlocksPerRecord;
    if (record) unrecorded_ = 0;
  }
  return record ? Record() : Result<void>();
}

Result<void> TreeIncoming::Record() {
  MutexLock one(commit_mutex_);
  BlockBitmap before;
  {
    MutexLock lock(mutex_);
    if (ended_) return {};
    before = here_;
  }
  if (::fdatasync(fd_.get()) != 0) return ErrorFromErrno(errno, "fdatasync of an upload");
  std::string value;
  {
    MutexLock lock(mutex_);
    durable_ |= before;
    value = RowNow().Encode();
  }
  return store_.index().Put(IncomingRow::Key(object_), value);
}

// From the disk where the page cache can be dropped.
Result<void> TreeIncoming::CheckWritten() {
  ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
  const Manifest written = QUADFS_TRY(Manifest::OfFile(fd_.get(), manifest_.size_bytes()));
  uint64_t bad = 0;
  for (uint64_t i = 0; i < manifest_.block_count(); ++i) {
    if (written.block(i) == manifest_.block(i)) continue;
    ++bad;
    MutexLock lock(mutex_);
    here_.Clear(i);
    durable_.Clear(i);
  }
  if (bad == 0) return {};
  std::string value;
  {
    MutexLock lock(mutex_);
    value = RowNow().Encode();
  }
  QUADFS_TRY(store_.index().Put(IncomingRow::Key(object_), value));
  return Error(ErrorCode::kCorruption, std::to_string(bad) + " blocks of object " +
                                           ObjectName(object_) +
                                           " were read back wrong from the store's disk");
}

Result<void> TreeIncoming::Commit(const Placement& placement) {
  const TreePath path = QUADFS_TRY(TreePath::Parse(placement.path));
  MutexLock one(commit_mutex_);
  {
    MutexLock lock(mutex_);
    if (ended_) return Error(ErrorCode::kStale, "the upload has ended");
    if (!here_.All()) {
      return Error(ErrorCode::kNotFound, std::to_string(here_.size() - here_.count()) +
                                             " blocks of the upload are missing");
    }
  }
  QUADFS_TRY(TreeStoreImpl::Apply(fd_.get(), placement));
  QUADFS_TRY(SyncFile(fd_.get(), "an upload"));
  QUADFS_TRY(CheckWritten());
  IncomingRow row;
  {
    MutexLock lock(mutex_);
    durable_ = here_;
    row = RowNow();
  }
  QUADFS_TRY(store_.Adopt(object_, fd_.get(), std::move(row), manifest_, path));
  MutexLock lock(mutex_);
  ended_ = true;
  return {};
}

void TreeIncoming::Abort() {
  MutexLock one(commit_mutex_);
  {
    MutexLock lock(mutex_);
    if (ended_) return;
    ended_ = true;
  }
  ::unlinkat(store_.incoming_directory(), ObjectName(object_).c_str(), 0);
  // A row that stays is found without its file and goes then.
  static_cast<void>(store_.index().Erase(IncomingRow::Key(object_)));
}

}  // namespace quadfs::cache
