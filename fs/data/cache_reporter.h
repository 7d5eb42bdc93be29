#pragma once

#include <functional>
#include <thread>
#include <unordered_map>

#include "cache/block_cache.h"
#include "fs/data/cached_bytes.h"
#include "metadata/change.h"
#include "metadata/view.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// Tells the hub what this node's cache holds: everything after each new connection, then what
/// changed, at most once a second, and only looks again when the cache's counters moved.
/// Threads: every method may be called concurrently; a thread of its own does the work.
/// Lifetime: cache and view outlive it.
class CacheReporter {
 public:
  struct Options {
    CampusId campus;
    NodeId node;
    std::chrono::milliseconds interval{1000};
    size_t max_files = 20000;  ///< Reported at most.
  };
  /// Sends to the hub; an error means: everything again later.
  using Send = std::function<Result<void>(std::string payload)>;
  using Connected = std::function<bool()>;

  CacheReporter(Options options, cache::BlockCache& cache, const metadata::View& view, Send send,
                Connected connected);
  ~CacheReporter() { Stop(); }

  /// Moved files count for other directories.
  void OnChange(const metadata::Change& change);
  /// Bytes of a directory's subtree here, as of the last look; exact for files is the cache itself.
  uint64_t DirectoryBytes(InodeId directory) const;
  void Stop();

  /// Looks and sends once; the thread calls it. Public for tests.
  void Round();

 private:
  CachedRows Look();
  InodeId ParentOf(InodeId inode);

  const Options options_;
  cache::BlockCache& cache_;
  const metadata::View& view_;
  const Send send_;
  const Connected connected_;

  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
  bool names_moved_ QUADFS_GUARDED_BY(mutex_) = true;
  CachedRows known_ QUADFS_GUARDED_BY(mutex_);

  // Of the thread that calls Round.
  std::unordered_map<InodeId, InodeId> parents_;
  uint64_t fingerprint_ = 0;
  bool told_ = false;  ///< The hub has what known_ says.
  std::jthread thread_;
};

}  // namespace quadfs::fs
