#include "cache/cached_object.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace quadfs::cache {
namespace {
constexpr int kEvictionsPerFill = 8;
}  // namespace

CachedObject::CachedObject(CacheCore& core, ObjectTable::Entry* entry, ObjectRow row,
                           std::shared_ptr<const Manifest> manifest, UniqueFd fd, bool row_exists)
    : core_(core),
      entry_(entry),
      slot_(row.slot),
      fd_(std::move(fd)),
      row_(std::move(row)),
      present_(row_.present),
      durable_(row_.present),
      written_(row_.written),
      manifest_(std::move(manifest)),
      row_exists_(row_exists) {
  present_ |= written_;
  row_.manifest.reset();
  const bool whole_dirty = row_.Has(Flag::kDirty) && !row_.Has(Flag::kPartialDirty);
  if (whole_dirty) {
    complete_ = true;
  } else if (row_.Has(Flag::kComplete)) {
    complete_ = manifest_ != nullptr && present_.All();
  } else {
    NoticeCompletion();
  }
}

CachedObject::~CachedObject() {
  bool row_exists = false;
  {
    MutexLock lock(mutex_);
    row_exists = row_exists_;
  }
  if (dirty()) RefreshBytes();
  if (core_.table.Release(entry_, row_exists)) core_.files.Remove(slot_);
}

Result<int> CachedObject::File() const {
  MutexLock lock(mutex_);
  if (!fd_) fd_ = QUADFS_TRY(core_.files.OpenSlot(slot_));
  return fd_.get();
}

int CachedObject::fd() const {
  const auto file = File();
  if (!file.ok()) core_.health.Report(Health::kDisk, file.error().message());
  return file.ok() ? *file : -1;
}

ObjectId CachedObject::id() const {
  MutexLock lock(mutex_);
  return row_.id;
}

uint64_t CachedObject::size_bytes() const {
  if (dirty()) {
    struct stat status {};
    const int file = fd();
    if (file >= 0 && ::fstat(file, &status) == 0) return static_cast<uint64_t>(status.st_size);
  }
  MutexLock lock(mutex_);
  return row_.size_bytes;
}

std::string CachedObject::path() const { return core_.files.PathOf(slot_); }

bool CachedObject::dirty() const {
  MutexLock lock(mutex_);
  return row_.Has(Flag::kDirty);
}

bool CachedObject::complete() const {
  MutexLock lock(mutex_);
  return complete_;
}

bool CachedObject::unsaved() const {
  MutexLock lock(mutex_);
  return row_.Has(Flag::kUnsaved);
}

bool CachedObject::HasBlock(uint64_t index) const {
  MutexLock lock(mutex_);
  if (row_.Has(Flag::kDirty)) return complete_ || !Needed(index);
  return present_.Test(index);
}

uint64_t CachedObject::present_bytes() const {
  if (dirty() && complete()) return size_bytes();
  MutexLock lock(mutex_);
  const uint64_t last = present_.size();
  if (last == 0 || !present_.Test(last - 1)) return present_.count() * kBlockBytes;
  return (present_.count() - 1) * kBlockBytes + LengthOf(last - 1);
}

std::shared_ptr<const Manifest> CachedObject::manifest() const {
  MutexLock lock(mutex_);
  return manifest_;
}

bool CachedObject::Matches(uint64_t size_bytes, const Checksum& root) const {
  MutexLock lock(mutex_);
  return row_.size_bytes == size_bytes && row_.root == root;
}

uint64_t CachedObject::LengthOf(uint64_t index) const {
  return std::min(kBlockBytes, row_.size_bytes - index * kBlockBytes);
}

// Whether a block still has to come from elsewhere.
bool CachedObject::Needed(uint64_t index) const {
  if (present_.Test(index) || index >= present_.size()) return false;
  return !row_.Has(Flag::kDirty) || index * kBlockBytes < row_.fill_limit;
}

// Completion is noticed when the last fill under way ends: nobody writes after the signature.
void CachedObject::NoticeCompletion() {
  if (complete_ || fills_ > 0 || !manifest_) return;
  if (row_.Has(Flag::kDirty)) {
    for (uint64_t i = 0; i < present_.size(); i = present_.Next(i + 1, /*set=*/false)) {
      if (Needed(i)) return;
    }
    complete_ = true;
    return;
  }
  if (!present_.All()) return;
  row_.signature = fd_ ? StatSignature::OfFile(fd_.get()) : StatSignature{};
  complete_ = true;
}

Result<void> CachedObject::SetManifest(Manifest manifest) {
  const Checksum root = manifest.Root();
  bool queue = false;
  {
    MutexLock lock(mutex_);
    if (manifest_) {
      if (*manifest_ == manifest) return {};
      return Error(ErrorCode::kCorruption, "another manifest for an object that has one");
    }
    if (root != row_.root || manifest.size_bytes() != row_.size_bytes) {
      return Error(ErrorCode::kCorruption, "manifest does not match the root of " +
                                               ObjectName(row_.id) + ": fetch it elsewhere");
    }
    manifest_ = std::make_shared<const Manifest>(std::move(manifest));
    NoticeCompletion();
    queue = complete_ || row_exists_;
  }
  if (queue) Queue(0);
  return {};
}

void CachedObject::Queue(uint64_t blocks) {
  {
    MutexLock lock(mutex_);
    if (queued_ || detached_) return;
    queued_ = true;
  }
  core_.syncer->Enqueue(shared_from_this(), blocks);
}

Result<void> CachedObject::StoreBlock(uint64_t index, std::span<const std::byte> block) {
  std::shared_ptr<const Manifest> manifest;
  bool partial_dirty = false;
  {
    MutexLock lock(mutex_);
    partial_dirty = row_.Has(Flag::kPartialDirty);
    if (row_.Has(Flag::kDirty) && !partial_dirty) {
      return Error(ErrorCode::kStale, "the object is being changed");
    }
    if (!manifest_) return Error(ErrorCode::kInvalidArgument, "block before its manifest");
    if (index >= manifest_->block_count()) {
      return Error(ErrorCode::kInvalidArgument, "block beyond the end of its object");
    }
    if (!Needed(index)) return {};
    manifest = manifest_;
  }
  if (!manifest->Matches(index, block)) {
    return Error(ErrorCode::kCorruption, "block does not match its manifest: fetch it elsewhere");
  }
  auto stored = partial_dirty ? FillPartialDirty(index, block) : FillClean(index, block);
  if (stored.ok()) {
    core_.health.Clear(Health::kSpace);
    core_.health.Clear(Health::kDisk);
  } else if (stored.error().code() == ErrorCode::kNoSpace ||
             stored.error().code() == ErrorCode::kIo) {
    core_.health.Report(stored.error());
  }
  return stored;
}

// A block of zeros becomes a hole. The file gets its full size here: readers may map it.
Result<void> CachedObject::PutBlock(int fd, uint64_t index, std::span<const std::byte> block) {
  const uint64_t offset = index * kBlockBytes;
  if (!AllZero(block)) return WriteAt(fd, block, offset);
  struct stat status {};
  if (::fstat(fd, &status) != 0) return ErrorFromErrno(errno, "stat of a cache file");
  const uint64_t end = offset + block.size();
  if (static_cast<uint64_t>(status.st_size) < end &&
      ::ftruncate(fd, static_cast<off_t>(end)) != 0) {
    return ErrorFromErrno(errno, "extending a cache file");
  }
  return PunchHole(fd, offset, block.size());
}

Result<void> CachedObject::FillClean(uint64_t index, std::span<const std::byte> block) {
  const int file = QUADFS_TRY(File());
  QUADFS_TRY(core_.MakeRoom(entry_, block.size()));
  bool became_dirty = false;
  {
    MutexLock lock(mutex_);
    became_dirty = row_.Has(Flag::kDirty);
    if (!became_dirty) ++fills_;
  }
  if (became_dirty) {
    core_.table.Refund(entry_, block.size());
    return Error(ErrorCode::kStale, "the object is being changed");
  }
  auto written = PutBlock(file, index, block);
  // Full before our limits are reached: others use the disk too.
  for (int i = 0;
       i < kEvictionsPerFill && !written.ok() && written.error().code() == ErrorCode::kNoSpace;
       ++i) {
    const auto victim = core_.table.Victim();
    if (!victim || !core_.EvictKey(*victim)) break;
    written = PutBlock(file, index, block);
  }
  EndFill(index, written.ok(), block.size());
  return written;
}

void CachedObject::EndFill(uint64_t index, bool stored, uint64_t charged) {
  bool changed = false;
  {
    MutexLock lock(mutex_);
    --fills_;
    changed = stored && present_.Set(index);
    NoticeCompletion();
  }
  fills_done_.NotifyAll();
  if (!changed) core_.table.Refund(entry_, charged);
  if (changed) Queue(1);
}

Result<std::vector<std::byte>> CachedObject::ReadBlock(uint64_t index) {
  std::shared_ptr<const Manifest> manifest;
  bool is_dirty = false;
  {
    MutexLock lock(mutex_);
    is_dirty = row_.Has(Flag::kDirty);
    manifest = manifest_;
    if (is_dirty && (!manifest || index >= manifest->block_count())) {
      return Error(ErrorCode::kStale, "the object is being changed");
    }
    if (!manifest || index >= present_.size() || !(is_dirty || present_.Test(index))) {
      return Error(ErrorCode::kNotFound, "the block is not in the cache");
    }
  }
  const int file = QUADFS_TRY(File());
  std::vector<std::byte> block(manifest->BlockLength(index));
  const auto got = ReadAt(file, block, index * kBlockBytes);
  if (got.ok() && *got == block.size() && manifest->Matches(index, block)) return block;
  if (is_dirty || dirty()) return Error(ErrorCode::kStale, "the block was changed");
  if (!got.ok()) core_.health.Report(got.error());
  if (!DropIfBad(index)) return Error(ErrorCode::kIo, "a cache file changed while it was read");
  return Error(ErrorCode::kCorruption, "a block of " + path() + " was damaged on disk and dropped");
}

bool CachedObject::DropIfBad(uint64_t index) {
  uint64_t length = 0;
  {
    MutexLock change(change_mutex_);
    std::shared_ptr<const Manifest> manifest;
    {
      MutexLock lock(mutex_);
      if (row_.Has(Flag::kDirty) || !manifest_) return false;
      if (!present_.Test(index)) return true;
      manifest = manifest_;
    }
    const auto file = File();
    length = manifest->BlockLength(index);
    std::vector<std::byte> block(length);
    if (file.ok()) {
      const auto got = ReadAt(*file, block, index * kBlockBytes);
      if (got.ok() && *got == length && manifest->Matches(index, block)) return false;
      // Before the bit goes: afterwards a new block may be on its way to this place.
      static_cast<void>(PunchHole(*file, index * kBlockBytes, length));
    }
    MutexLock lock(mutex_);
    present_.Clear(index);
    durable_.Clear(index);
    complete_ = false;
    ++drops_;
  }
  ++core_.corrupt_blocks;
  core_.table.Refund(entry_, length);
  MutexLock row(core_.rows.For(id().inode));
  // If this fails, the next reader finds the block bad again: it is checked before anyone sees it.
  if (auto put = PutRow(); !put.ok()) core_.health.Report(put.error());
  return true;
}

Result<bool> CachedObject::VerifyIfChanged() {
  const int file = QUADFS_TRY(File());
  {
    MutexLock lock(mutex_);
    if (!complete_ || row_.Has(Flag::kDirty)) return complete_;
    if (StatSignature::OfFile(file) == row_.signature) return true;
  }
  return VerifyAll();
}

Result<bool> CachedObject::VerifyAll() {
  const int file = QUADFS_TRY(File());
  const std::shared_ptr<const Manifest> manifest = this->manifest();
  struct stat status {};
  if (::fstat(file, &status) != 0) return ErrorFromErrno(errno, "stat of a cache file");
  if (static_cast<uint64_t>(status.st_size) != manifest->size_bytes() &&
      ::ftruncate(file, static_cast<off_t>(manifest->size_bytes())) != 0) {
    return ErrorFromErrno(errno, "restoring the size of a cache file");
  }
  const StatSignature before = StatSignature::OfFile(file);
  std::vector<std::byte> buffer(std::min(kBlockBytes, manifest->size_bytes()));
  for (uint64_t i = 0; i < manifest->block_count(); ++i) {
    const std::span<std::byte> block(buffer.data(), manifest->BlockLength(i));
    const auto got = ReadAt(file, block, i * kBlockBytes);
    if (got.ok() && *got == block.size() && manifest->Matches(i, block)) continue;
    DropIfBad(i);
  }
  MutexLock row(core_.rows.For(id().inode));
  {
    MutexLock lock(mutex_);
    if (!complete_ || row_.Has(Flag::kDirty)) return complete_;
    row_.signature = before;
  }
  if (auto put = PutRow(); !put.ok()) core_.health.Report(put.error());
  return true;
}

}  // namespace quadfs::cache
