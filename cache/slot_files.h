#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace quadfs::cache {

/// The data files of the cache: `slots/xx/<slot>`, 16 hexadecimal digits. 1024 slots in a row share
/// a directory, so that files made together lie together on disk. A slot number is never used
/// twice, so that a row which a power cut brings back cannot name the file of another object.
/// Threads: every method may be called concurrently.
class SlotFiles {
 public:
  /// Makes the directories (mode 0700) and locks them against another process.
  /// Errors: kBusy, kIo, kPermission.
  static Result<SlotFiles> Open(const std::string& directory);
  SlotFiles(SlotFiles&& other) noexcept;

  Result<UniqueFd> Create(uint64_t slot) const;
  Result<UniqueFd> OpenSlot(uint64_t slot) const;
  void Remove(uint64_t slot) const;
  /// fsync of the directory that names the slot.
  Result<void> SyncDirectoryOf(uint64_t slot) const;
  /// Moves the file to `lost/`.
  Result<void> SetAside(uint64_t slot) const;
  /// Slots whose file exists, ascending.
  Result<std::vector<uint64_t>> List() const;
  std::string PathOf(uint64_t slot) const;
  /// Makes everything on this file system durable; false if some write failed, perhaps not ours.
  bool SyncAll() const;
  /// Bytes the disk has left for us.
  uint64_t FreeBytes() const;

  /// Random name of this directory, made at first; an index remembers which one it belongs to.
  Result<std::string> Identity() const;

 private:
  SlotFiles() = default;
  static std::string NameOf(uint64_t slot);
  static int DirectoryOf(uint64_t slot) { return static_cast<int>((slot / 1024) % 256); }
  std::string directory_;
  UniqueFd root_;  ///< The cache directory; holds the lock.
  UniqueFd slots_;
};

}  // namespace quadfs::cache
