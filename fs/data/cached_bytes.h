#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/base/ids.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace quadfs::fs {

/// What one node's cache holds: per file its present bytes, per directory those of its subtree.
struct CachedRow {
  Generation generation;  ///< 0: a directory.
  uint64_t bytes = 0;
  bool operator==(const CachedRow&) const = default;
};
using CachedRows = std::unordered_map<InodeId, CachedRow>;

/// Rows that a node may report at most: 20,000 files and their directories.
inline constexpr size_t kMaxCachedRows = 40000;

/// kMessageCacheReport: changes of one node's rows (`bytes` 0: gone), or all of them.
struct CacheReportMessage {
  CampusId campus;
  NodeId node;
  bool reset = false;
  std::vector<std::pair<InodeId, CachedRow>> rows;

  std::string Encode() const;
  /// Errors: kCorruption.
  static Result<CacheReportMessage> Decode(const std::string& bytes);
};

/// Which node caches how much of what, as the nodes reported: soft state, forgotten when a node
/// goes. Threads: every method may be called concurrently.
class CachedBytes {
 public:
  struct Holder {
    NodeId node;
    CampusId campus;
    uint64_t bytes = 0;
  };
  /// `generation` 0: a directory.
  std::vector<Holder> HoldersOf(InodeId inode, Generation generation) const;
  void Apply(const CacheReportMessage& message);
  void Forget(NodeId node);
  /// Everything known of a node, as one report that replaces all before.
  std::optional<CacheReportMessage> Snapshot(NodeId node) const;
  std::vector<NodeId> Nodes() const;

 private:
  static constexpr size_t kMaxNodes = 8192;
  struct Node {
    CampusId campus;
    CachedRows rows;
  };
  mutable Mutex mutex_;
  std::map<NodeId, Node> nodes_ QUADFS_GUARDED_BY(mutex_);
};

}  // namespace quadfs::fs
