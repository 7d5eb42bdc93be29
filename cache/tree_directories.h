#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/index_store.h"
#include "cache/tree_rows.h"
#include "transport/base/mutex.h"

namespace quadfs::cache {

/// Numbers for the directories on the way to held files, in memory and as one row each. Held rows
/// name their directory by number, so a directory's rename changes one row, whatever is below it.
/// It does not touch the tree. Threads: every method may be called concurrently.
class TreeDirectories {
 public:
  static constexpr uint64_t kRoot = 1;

  explicit TreeDirectories(IndexStore& index) : index_(index) {}
  Result<void> Load();

  /// The number of a directory, if it has one.
  std::optional<uint64_t> Find(const std::vector<std::string>& components) const;
  /// The same; what has none gets one.
  Result<uint64_t> FindOrAdd(const std::vector<std::string>& components);
  /// Components from the root; none if the number means nothing (any more).
  std::optional<std::vector<std::string>> PathOf(uint64_t directory) const;
  std::optional<Place> PlaceOf(uint64_t directory) const;
  /// After the rename on disk: `intent_key`, the MoveRow's, becomes the directory's row.
  Result<void> Moved(uint64_t directory, const Place& to, const std::string& intent_key);
  /// Forgets it and what is below: it is no more.
  Result<void> Removed(uint64_t directory);
  static std::string Key(uint64_t directory) {
    return std::string(kDirectoryPrefix) + KeyNumber(directory);
  }

 private:
  struct Node {
    Place place;
    std::unordered_map<std::string, uint64_t> children;
  };
  std::optional<uint64_t> FindLocked(const std::vector<std::string>& components) const
      QUADFS_REQUIRES(mutex_);
  Result<uint64_t> AddLocked(uint64_t parent, const std::string& name) QUADFS_REQUIRES(mutex_);
  void Unlink(uint64_t directory) QUADFS_REQUIRES(mutex_);

  IndexStore& index_;
  mutable Mutex mutex_;  ///< Held across index writes, so that a directory gets one number only.
  std::unordered_map<uint64_t, Node> nodes_ QUADFS_GUARDED_BY(mutex_);
  uint64_t next_ QUADFS_GUARDED_BY(mutex_) = kRoot + 1;
};

}  // namespace quadfs::cache
