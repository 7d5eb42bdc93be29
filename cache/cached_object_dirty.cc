// The life of a dirty object: made, written, sealed.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cache/cached_object.h"

namespace quadfs::cache {

Result<void> CachedObject::MakeDirty() {
  {
    MutexLock lock(mutex_);
    if (row_.Has(Flag::kDirty)) return {};
    if (!complete_) {
      return Error(ErrorCode::kInvalidArgument, "a partial object needs MakePartialDirty");
    }
  }
  return BecomeDirty(0);
}

Result<void> CachedObject::MakePartialDirty() {
  {
    MutexLock lock(mutex_);
    if (row_.Has(Flag::kDirty)) return {};
    if (!manifest_) return Error(ErrorCode::kInvalidArgument, "the object has no manifest yet");
  }
  const int file = QUADFS_TRY(File());
  // The old version's size now, so that what a program appends is beyond it.
  struct stat status {};
  if (::fstat(file, &status) != 0) return ErrorFromErrno(errno, "stat of a cache file");
  const uint64_t size = manifest()->size_bytes();
  if (static_cast<uint64_t>(status.st_size) < size &&
      ::ftruncate(file, static_cast<off_t>(size)) != 0) {
    return ErrorFromErrno(errno, "extending a cache file");
  }
  return BecomeDirty(complete() ? 0 : Flag::kPartialDirty);
}

Result<void> CachedObject::BecomeDirty(uint8_t extra_flags) {
  uint64_t version = 0;
  {
    MutexLock row(core_.rows.For(id().inode));
    if (core_.table.FindDirty(id().inode)) {
      MutexLock lock(mutex_);
      if (row_.Has(Flag::kDirty)) return {};
      return Error(ErrorCode::kStale, "the inode has a dirty object already");
    }
    std::shared_ptr<const Manifest> manifest;
    std::string old_key;
    ObjectRow next;
    uint8_t old_flags = 0;
    bool detached = false;
    {
      MutexLock lock(mutex_);
      detached = detached_;
      old_key = row_.key().Encode();
      old_flags = row_.flags;
      manifest = manifest_;
      // From here on StoreBlock and ReadBlock see a dirty object; fills under way end first.
      row_.flags = static_cast<uint8_t>((row_.flags | Flag::kDirty | extra_flags) &
                                        ~(Flag::kSealed | Flag::kComplete));
      row_.fill_limit = row_.size_bytes;
      while (fills_ > 0) fills_done_.Wait(mutex_);
      if (manifest && manifest->block_count() > ObjectRow::kInlineBlocks) {
        row_.flags |= Flag::kManifestRow;
      }
      next = RowNow();
    }
    if (detached) return {};
    auto moved = manifest ? PutManifestRow(*manifest) : Result<void>();
    if (moved.ok()) moved = core_.index.Move(old_key, next.key().Encode(), next.Encode());
    MutexLock lock(mutex_);
    if (!moved.ok()) {
      row_.flags = old_flags;
      return moved;
    }
    row_exists_ = true;
    version = ++row_version_;
    core_.table.Rekey(entry_, next.key(), next.flags, next.size_bytes);
  }
  // A new file has a durable row only after Sync; here older content is about to be overwritten.
  QUADFS_TRY(core_.index.Sync());
  MutexLock lock(mutex_);
  durable_version_ = std::max(durable_version_, version);
  return {};
}

// A fill writes no more than what still counts of the old version, and never over a program's
// bytes.
Result<void> CachedObject::FillPartialDirty(uint64_t index, std::span<const std::byte> block) {
  const int file = QUADFS_TRY(File());
  QUADFS_TRY(core_.EvictDownTo(block.size()));
  {
    MutexLock change(change_mutex_);
    uint64_t length = block.size();
    {
      MutexLock lock(mutex_);
      if (!Needed(index)) return {};
      length = std::min(length, row_.fill_limit - index * kBlockBytes);
    }
    QUADFS_TRY(PutBlock(file, index, block.first(length)));
    MutexLock lock(mutex_);
    present_.Set(index);
    NoticeCompletion();
  }
  Queue(1);
  return {};
}

Result<void> CachedObject::CheckWritable(uint64_t offset, uint64_t length) const {
  MutexLock lock(mutex_);
  if (length == 0 || !row_.Has(Flag::kPartialDirty)) return {};
  const uint64_t end = offset + length;
  const uint64_t last = std::min((end - 1) / kBlockBytes + 1, present_.size());
  for (uint64_t i = offset / kBlockBytes; i < last; ++i) {
    const uint64_t block_end = std::min((i + 1) * kBlockBytes, row_.fill_limit);
    // Behind what counts of the last block, bytes are the program's alone.
    if (!Needed(i) || offset >= block_end) continue;
    if (offset > i * kBlockBytes || end < block_end) {
      return Error(ErrorCode::kNotFound, "block " + std::to_string(i) + " must be fetched first");
    }
  }
  return {};
}

bool CachedObject::MarkWritten(uint64_t offset, uint64_t length) {
  MutexLock lock(mutex_);
  if (length == 0 || !row_.Has(Flag::kPartialDirty)) return false;
  bool changed = false;
  const uint64_t end = offset + length;
  const uint64_t last = std::min((end - 1) / kBlockBytes + 1, present_.size());
  for (uint64_t i = offset / kBlockBytes; i < last; ++i) {
    const uint64_t block_end = std::min((i + 1) * kBlockBytes, row_.fill_limit);
    if (!Needed(i) || offset > i * kBlockBytes || end < block_end) continue;
    present_.Set(i);
    written_.Set(i);
    changed = true;
  }
  if (changed) NoticeCompletion();
  return changed;
}

Result<void> CachedObject::Write(uint64_t offset, std::span<const std::byte> bytes) {
  if (!dirty()) return Error(ErrorCode::kInvalidArgument, "write into an object that is not dirty");
  const int file = QUADFS_TRY(File());
  bool changed = false;
  {
    MutexLock change(change_mutex_);
    QUADFS_TRY(CheckWritable(offset, bytes.size()));
    QUADFS_TRY(WriteAt(file, bytes, offset));
    changed = MarkWritten(offset, bytes.size());
  }
  if (!changed) return {};
  // Kept before the program hears of it: after a kill, nothing may be filled over its bytes.
  QUADFS_TRY(PutRowLocked());
  Queue(1);
  return {};
}

void CachedObject::NoteWrite(uint64_t offset, uint64_t length) {
  if (!MarkWritten(offset, length)) return;
  if (auto put = PutRowLocked(); !put.ok()) core_.health.Report(put.error());
  Queue(1);
}

Result<void> CachedObject::NoteTruncate(uint64_t new_size) {
  if (!dirty())
    return Error(ErrorCode::kInvalidArgument, "truncate of an object that is not dirty");
  const int file = QUADFS_TRY(File());
  {
    MutexLock change(change_mutex_);
    if (::ftruncate(file, static_cast<off_t>(new_size)) != 0) {
      return ErrorFromErrno(errno, "truncating a cache file");
    }
    MutexLock lock(mutex_);
    if (!row_.Has(Flag::kPartialDirty) || new_size >= row_.fill_limit) return {};
    row_.fill_limit = new_size;
    NoticeCompletion();
  }
  // The row must not cut off what the file, after a power cut, still has.
  QUADFS_TRY(core_.SyncData(file));
  return PutRowLocked();
}

Result<Manifest> CachedObject::ComputeManifest() {
  const int file = QUADFS_TRY(File());
  if (!complete()) return Error(ErrorCode::kBusy, "blocks of the old version are still missing");
  const StatSignature before = StatSignature::OfFile(file);
  Manifest manifest = QUADFS_TRY(Manifest::OfFile(file, before.size));
  MutexLock lock(mutex_);
  computed_ = before;
  return manifest;
}

Result<void> CachedObject::Seal(Generation generation, Manifest manifest,
                                bool still_open_for_write) {
  const int file = QUADFS_TRY(File());
  const StatSignature now = StatSignature::OfFile(file);
  const Checksum root = manifest.Root();
  const uint64_t blocks = manifest.block_count();
  const auto shared = std::make_shared<const Manifest>(std::move(manifest));
  {
    MutexLock row(core_.rows.For(id().inode));
    std::string old_key;
    ObjectRow next;
    bool detached = false;
    {
      MutexLock lock(mutex_);
      const bool same_version = row_.id.generation == generation && row_.root == root;
      if (!row_.Has(Flag::kDirty)) {
        if (same_version) return {};
        return Error(ErrorCode::kInvalidArgument, "only a dirty object can be sealed");
      }
      if (!complete_) return Error(ErrorCode::kBusy, "blocks of the old version are missing");
      if (!still_open_for_write && now.size != shared->size_bytes()) {
        return Error(ErrorCode::kStale, "the file has another size than its manifest");
      }
      detached = detached_;
      old_key = row_.key().Encode();
      next = row_;
      // Who wrote after ComputeManifest began is found by the check that no signature causes.
      next.signature = now == computed_ ? now : StatSignature{};
      if (!same_version) next.flags |= Flag::kUnsaved;
    }
    next.id.generation = generation;
    next.root = root;
    next.size_bytes = shared->size_bytes();
    next.last_use = core_.table.Use();
    next.fill_limit = 0;
    next.flags |= Flag::kComplete | Flag::kSealed | Flag::kUnsynced;
    next.flags &= static_cast<uint8_t>(~(Flag::kPartialDirty | Flag::kManifestRow));
    if (!still_open_for_write) next.flags &= static_cast<uint8_t>(~Flag::kDirty);
    if (blocks > ObjectRow::kInlineBlocks) next.flags |= Flag::kManifestRow;
    next.present = BlockBitmap::Full(blocks);
    next.written = BlockBitmap(blocks);
    next.boot_id = core_.options.boot_id;
    next.manifest = InlineManifest(*shared);
    const RowKey key = RowKey::Of(next.id);
    if (!detached) {
      const ObjectTable::Entry* const other = core_.table.Find(key);
      if (other != nullptr && other != entry_) {
        return Error(ErrorCode::kExists, "version " + ObjectName(next.id) + " is here already");
      }
      QUADFS_TRY(PutManifestRow(*shared));
      const std::string new_key = key.Encode();
      QUADFS_TRY(old_key == new_key ? core_.index.Put(new_key, next.Encode())
                                    : core_.index.Move(old_key, new_key, next.Encode()));
      core_.table.Rekey(entry_, key, next.flags, next.size_bytes);
    }
    MutexLock lock(mutex_);
    next.manifest.reset();
    row_ = std::move(next);
    present_ = durable_ = row_.present;
    written_ = row_.written;
    manifest_ = shared;
    ++seals_;
    ++row_version_;
    row_exists_ = true;
  }
  RefreshBytes();
  Queue(1);
  return {};
}

}  // namespace quadfs::cache
