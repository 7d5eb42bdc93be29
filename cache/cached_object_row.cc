// How the row of an object follows its state.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "cache/cached_object.h"

namespace quadfs::cache {

ObjectRow CachedObject::RowNow() const {
  ObjectRow row = row_;
  row.last_use = core_.table.Use();
  row.present = durable_;
  row.written = written_;
  if (row.Has(Flag::kUnsynced) || written_.count() > 0) row.boot_id = core_.options.boot_id;
  const bool sealed_or_clean = !row.Has(Flag::kDirty) || row.Has(Flag::kSealed);
  const bool claims_all = sealed_or_clean && complete_ && durable_.All();
  row.flags =
      static_cast<uint8_t>(claims_all ? row.flags | Flag::kComplete : row.flags & ~Flag::kComplete);
  if (!claims_all) row.signature = {};
  if (manifest_) row.manifest = InlineManifest(*manifest_);
  return row;
}

std::optional<std::vector<Checksum>> CachedObject::InlineManifest(const Manifest& manifest) {
  if (manifest.block_count() > ObjectRow::kInlineBlocks) return std::nullopt;
  std::vector<Checksum> blocks;
  blocks.reserve(manifest.block_count());
  for (uint64_t i = 0; i < manifest.block_count(); ++i) blocks.push_back(manifest.block(i));
  return blocks;
}

Result<void> CachedObject::PutManifestRow(const Manifest& manifest) {
  if (manifest.block_count() <= ObjectRow::kInlineBlocks) return {};
  return core_.index.Put(ManifestKey(slot_), manifest.Serialize());
}

Result<void> CachedObject::PutRow() {
  std::shared_ptr<const Manifest> new_manifest;
  {
    MutexLock lock(mutex_);
    if (detached_) return {};
    if (manifest_ && manifest_->block_count() > ObjectRow::kInlineBlocks &&
        !row_.Has(Flag::kManifestRow)) {
      new_manifest = manifest_;
    }
  }
  if (new_manifest) QUADFS_TRY(PutManifestRow(*new_manifest));
  std::string key;
  std::string value;
  uint8_t flags = 0;
  {
    MutexLock lock(mutex_);
    if (new_manifest) row_.flags |= Flag::kManifestRow;
    const ObjectRow row = RowNow();
    key = row.key().Encode();
    value = row.Encode();
    flags = row.flags;
    ++row_version_;
  }
  QUADFS_TRY(core_.index.Put(key, value));
  core_.table.SetFlags(entry_, flags);
  MutexLock lock(mutex_);
  row_exists_ = true;
  return {};
}

Result<void> CachedObject::PutRowLocked() {
  MutexLock row(core_.rows.For(id().inode));
  return PutRow();
}

Result<void> CachedObject::ChangeFlags(uint8_t set, uint8_t clear) {
  MutexLock row(core_.rows.For(id().inode));
  uint8_t before = 0;
  {
    MutexLock lock(mutex_);
    before = row_.flags;
    row_.flags = static_cast<uint8_t>((row_.flags | set) & ~clear);
  }
  auto put = PutRow();
  if (!put.ok()) {
    MutexLock lock(mutex_);
    row_.flags = static_cast<uint8_t>((row_.flags & ~set) | (before & (set | clear)));
  }
  return put;
}

Result<void> CachedObject::SetPinned(bool pinned) {
  QUADFS_TRY(pinned ? ChangeFlags(Flag::kPinned, 0) : ChangeFlags(0, Flag::kPinned));
  return core_.index.Sync();
}

Result<void> CachedObject::MarkSaved() {
  if (!unsaved()) return {};
  return ChangeFlags(0, Flag::kUnsaved);
}

Result<void> CachedObject::MarkUnsaved() {
  if (unsaved()) return {};
  if (!complete()) return Error(ErrorCode::kInvalidArgument, "blocks of the object are missing");
  return ChangeFlags(Flag::kUnsaved, 0);
}

bool CachedObject::Claim(Snapshot snapshot) {
  if (snapshot.drops != drops_ || snapshot.seals != seals_) return false;
  snapshot.present &= present_;
  durable_ |= snapshot.present;
  written_ -= snapshot.present;
  row_.flags &= static_cast<uint8_t>(~Flag::kUnsynced);
  if (row_.Has(Flag::kPartialDirty) && complete_ && written_.count() == 0) {
    row_.flags &= static_cast<uint8_t>(~Flag::kPartialDirty);
  }
  return true;
}

void CachedObject::BeginPersist() {
  {
    MutexLock lock(mutex_);
    queued_ = false;
    persisting_ = TakeSnapshot();
    if (detached_) return;
  }
  if (const auto file = File(); file.ok()) {
    ::sync_file_range(*file, 0, 0, SYNC_FILE_RANGE_WRITE);
  }
}

void CachedObject::FinishPersist(bool synced) {
  {
    MutexLock lock(mutex_);
    if (detached_) return;
  }
  if (!synced) {
    const auto file = File();
    auto done = file.ok() ? core_.SyncData(*file) : Result<void>(file.error());
    if (!done.ok()) {
      core_.health.Report(done.error());
      MutexLock lock(mutex_);
      if (row_.Has(Flag::kDirty) || row_.Has(Flag::kSealed)) {
        sync_failed_ = true;
        return;
      }
      // Nobody knows what is on the disk: these blocks are fetched again.
      core_.table.Refund(entry_, (present_.count() - durable_.count()) * kBlockBytes);
      present_ = durable_;
      complete_ = complete_ && present_.All();
      ++drops_;
      return;
    }
  }
  bool claimed = false;
  {
    MutexLock row(core_.rows.For(id().inode));
    {
      MutexLock lock(mutex_);
      if (detached_) return;
      claimed = Claim(std::exchange(persisting_, {}));
    }
    if (auto put = PutRow(); !put.ok()) core_.health.Report(put.error());
  }
  if (!claimed) Queue(1);
}

Result<void> CachedObject::Sync() {
  Snapshot before;
  bool name_durable = false;
  {
    MutexLock lock(mutex_);
    if (sync_failed_) {
      return Error(ErrorCode::kIo, "an earlier sync of " + core_.files.PathOf(slot_) +
                                       " failed: what it held may be lost");
    }
    before = TakeSnapshot();
    name_durable = name_durable_;
  }
  const int file = QUADFS_TRY(File());
  auto synced = core_.SyncData(file);
  if (synced.ok() && !name_durable) synced = core_.files.SyncDirectoryOf(slot_);
  if (!synced.ok()) {
    core_.health.Report(synced.error());
    MutexLock lock(mutex_);
    sync_failed_ = true;
    return synced;
  }
  uint64_t version = 0;
  {
    MutexLock row(core_.rows.For(id().inode));
    bool put_row = false;
    {
      MutexLock lock(mutex_);
      name_durable_ = true;
      if (detached_) return {};
      const uint8_t flags = row_.flags;
      const uint64_t claims = durable_.count() + written_.count();
      Claim(std::move(before));
      put_row =
          !row_exists_ || flags != row_.flags || claims != durable_.count() + written_.count();
    }
    if (put_row) QUADFS_TRY(PutRow());
    MutexLock lock(mutex_);
    version = row_version_;
    if (version == durable_version_) return {};
  }
  QUADFS_TRY(core_.index.Sync());
  MutexLock lock(mutex_);
  durable_version_ = std::max(durable_version_, version);
  return {};
}

void CachedObject::RefreshBytes() {
  struct stat status {};
  MutexLock lock(mutex_);
  if (fd_ && ::fstat(fd_.get(), &status) == 0) {
    core_.table.SetBytes(entry_, static_cast<uint64_t>(status.st_blocks) * 512);
  }
}

void CachedObject::Discard() {
  static_cast<void>(fd());  // Its users keep it by descriptor.
  MutexLock row(core_.rows.For(id().inode));
  RowKey key;
  bool manifest_row = false;
  bool had_row = false;
  {
    MutexLock lock(mutex_);
    if (detached_) return;
    detached_ = true;
    key = row_.key();
    manifest_row = row_.Has(Flag::kManifestRow);
    had_row = row_exists_;
  }
  core_.table.Detach(entry_);
  if (had_row) core_.EraseRows(key, slot_, manifest_row);
}

}  // namespace quadfs::cache
