#pragma once

#include <memory>
#include <vector>

#include "cache/tree_store_impl.h"

namespace quadfs::cache {

/// An upload into `.quadfs/incoming/<object>`. Blocks count as here after a restart only if their
/// row was written after their fdatasync.
class TreeIncoming final : public Incoming {
 public:
  TreeIncoming(TreeStoreImpl& store, const ObjectId& object, Manifest manifest);
  ~TreeIncoming() override;
  /// Makes the file, or takes up the one a former run left.
  Result<void> Open();

  bool ended() const;

  const Manifest& manifest() const override { return manifest_; }
  std::vector<uint64_t> Missing(size_t limit) const override;
  Result<void> WriteBlock(uint64_t index, std::span<const std::byte> block) override;
  Result<void> Commit(const Placement& placement) override;
  void Abort() override;

 private:
  static constexpr uint64_t kBlocksPerRecord = 64;
  Result<void> Record();
  Result<void> CheckWritten();
  IncomingRow RowNow() const QUADFS_REQUIRES(mutex_);

  TreeStoreImpl& store_;
  const ObjectId object_;
  const Manifest manifest_;
  const Checksum root_;
  UniqueFd fd_;
  uint64_t file_inode_ = 0;
  Mutex commit_mutex_;  ///< One Commit, Abort or Record at a time; held across the disk.
  mutable Mutex mutex_;
  BlockBitmap here_ QUADFS_GUARDED_BY(mutex_), durable_ QUADFS_GUARDED_BY(mutex_);
  uint64_t unrecorded_ QUADFS_GUARDED_BY(mutex_) = 0;
  bool ended_ QUADFS_GUARDED_BY(mutex_) = false;
};

}  // namespace quadfs::cache
