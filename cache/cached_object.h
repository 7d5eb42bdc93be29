#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/cache_core.h"

namespace quadfs::cache {

/// The one CacheObject there is. What is in memory runs ahead of its row; the syncer lets the row
/// follow: `present_` are the blocks that can be read, `durable_` those that the row may claim.
///
/// Lock order: the inode's row lock, `change_mutex_`, `mutex_`, the table's. Only the first two are
/// held across I/O: the first across index writes, the second across a repair, and in partially
/// dirty objects across writes, because there a fill must never overtake a program's write.
class CachedObject final : public CacheObject, public std::enable_shared_from_this<CachedObject> {
 public:
  /// `row`: as stored, or of a new object whose row is not written yet. `manifest`: if known.
  /// `fd`: may be none, then it is opened when needed.
  CachedObject(CacheCore& core, ObjectTable::Entry* entry, ObjectRow row,
               std::shared_ptr<const Manifest> manifest, UniqueFd fd, bool row_exists);
  ~CachedObject() override;

  ObjectId id() const override;
  uint64_t size_bytes() const override;
  int fd() const override;
  std::string path() const override;
  bool dirty() const override;
  bool complete() const override;
  bool HasBlock(uint64_t index) const override;
  uint64_t present_bytes() const override;
  std::shared_ptr<const Manifest> manifest() const override;
  Result<void> SetManifest(Manifest manifest) override;
  Result<void> StoreBlock(uint64_t index, std::span<const std::byte> block) override;
  Result<std::vector<std::byte>> ReadBlock(uint64_t index) override;
  Result<bool> VerifyIfChanged() override;
  Result<void> MakeDirty() override;
  Result<void> MakePartialDirty() override;
  Result<void> Write(uint64_t offset, std::span<const std::byte> bytes) override;
  void NoteWrite(uint64_t offset, uint64_t length) override;
  Result<void> NoteTruncate(uint64_t new_size) override;
  Result<void> Sync() override;
  Result<Manifest> ComputeManifest() override;
  Result<void> Seal(Generation generation, Manifest manifest, bool still_open_for_write) override;
  Result<void> MarkSaved() override;
  Result<void> MarkUnsaved() override;
  bool unsaved() const override;
  void Discard() override;

  // For the cache and its syncer.
  bool Matches(uint64_t size_bytes, const Checksum& root) const;
  Result<void> SetPinned(bool pinned);
  /// The syncer's two steps, on its thread: remembers what is present and starts its write-out;
  /// then fdatasync, unless `synced` all since, and the row may claim what was remembered.
  void BeginPersist();
  void FinishPersist(bool synced);
  /// Reads how much disk a dirty file takes.
  void RefreshBytes();
  /// Has the syncer persist it soon; `blocks`: how much is new.
  void Queue(uint64_t blocks);
  /// Writes the row under its key. The caller holds the row lock.
  Result<void> PutRow();

 private:
  using Flag = ObjectRow::Flag;
  Result<int> File() const;
  uint64_t LengthOf(uint64_t index) const QUADFS_REQUIRES(mutex_);
  bool Needed(uint64_t index) const QUADFS_REQUIRES(mutex_);
  void NoticeCompletion() QUADFS_REQUIRES(mutex_);
  void EndFill(uint64_t index, bool stored, uint64_t charged);
  Result<void> FillClean(uint64_t index, std::span<const std::byte> block);
  Result<void> FillPartialDirty(uint64_t index, std::span<const std::byte> block);
  Result<void> PutBlock(int fd, uint64_t index, std::span<const std::byte> block);
  /// Drops the block if it is bad indeed; whether it is gone now.
  bool DropIfBad(uint64_t index);
  Result<bool> VerifyAll();

  ObjectRow RowNow() const QUADFS_REQUIRES(mutex_);
  Result<void> PutManifestRow(const Manifest& manifest);
  static std::optional<std::vector<Checksum>> InlineManifest(const Manifest& manifest);
  /// Changes flags under the row lock and writes the row; what did not get written is undone.
  Result<void> ChangeFlags(uint8_t set, uint8_t clear);
  Result<void> BecomeDirty(uint8_t extra_flags);
  /// Whether all blocks it touches are here or covered. Errors: kNotFound.
  Result<void> CheckWritable(uint64_t offset, uint64_t length) const;
  /// In memory; whether anything changed.
  bool MarkWritten(uint64_t offset, uint64_t length);
  Result<void> PutRowLocked();

  CacheCore& core_;
  ObjectTable::Entry* const entry_;
  const uint64_t slot_;

  mutable Mutex change_mutex_;
  mutable Mutex mutex_;
  CondVar fills_done_;
  mutable UniqueFd fd_ QUADFS_GUARDED_BY(mutex_);
  ObjectRow row_ QUADFS_GUARDED_BY(mutex_);  ///< id, size, root, flags, signature: as of now.
  BlockBitmap present_ QUADFS_GUARDED_BY(mutex_), durable_ QUADFS_GUARDED_BY(mutex_);
  BlockBitmap written_ QUADFS_GUARDED_BY(mutex_);  ///< Of `present_`: not yet durable, but kept.
  std::shared_ptr<const Manifest> manifest_ QUADFS_GUARDED_BY(mutex_);
  StatSignature computed_ QUADFS_GUARDED_BY(mutex_);  ///< When ComputeManifest began.
  bool complete_ QUADFS_GUARDED_BY(mutex_) = false;
  bool row_exists_ QUADFS_GUARDED_BY(mutex_) = false;
  uint64_t row_version_ QUADFS_GUARDED_BY(mutex_) = 0, durable_version_
                                                       QUADFS_GUARDED_BY(mutex_) = 0;
  bool name_durable_ QUADFS_GUARDED_BY(mutex_) = false;  ///< The file's directory entry is.
  bool detached_ QUADFS_GUARDED_BY(mutex_) = false;
  bool queued_ QUADFS_GUARDED_BY(mutex_) = false;
  bool sync_failed_ QUADFS_GUARDED_BY(mutex_) = false;
  /// What an fdatasync that begins now makes durable.
  struct Snapshot {
    BlockBitmap present;
    uint64_t drops = 0, seals = 0;
  };
  Snapshot TakeSnapshot() const QUADFS_REQUIRES(mutex_) { return {present_, drops_, seals_}; }
  /// After it: whether nothing came between that makes it void.
  bool Claim(Snapshot snapshot) QUADFS_REQUIRES(mutex_);
  Snapshot persisting_ QUADFS_GUARDED_BY(mutex_);  ///< The syncer's.
  uint32_t fills_ QUADFS_GUARDED_BY(mutex_) = 0;   ///< StoreBlocks of the clean state under way.
  uint64_t drops_ QUADFS_GUARDED_BY(mutex_) = 0;   ///< Counts what makes an older sync void.
  uint64_t seals_ QUADFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace quadfs::cache
