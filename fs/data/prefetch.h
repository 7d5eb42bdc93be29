#pragma once

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "cache/block_cache.h"
#include "fs/data/fetcher.h"
#include "metadata/change.h"
#include "metadata/view.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// kMessagePrefetch: which inodes shall be brought to a node's or hub's cache.
struct PrefetchMessage {
  CampusId campus;
  NodeId node;  ///< 0: the campus's hub.
  std::vector<InodeId> inodes;

  static constexpr size_t kMaxInodes = 100000;
  std::string Encode() const;
  /// Errors: kCorruption.
  static Result<PrefetchMessage> Decode(const std::string& bytes);
};

/// Brings files into a cache in the background, at the lowest priority.
/// Threads: every method may be called concurrently; a thread of its own does the work.
class Prefetcher {
 public:
  Prefetcher(cache::BlockCache& cache, const metadata::View& view, Fetcher& fetcher);
  ~Prefetcher() { Stop(); }

  void OnMessage(const metadata::Message& message);
  void Stop();

 private:
  static constexpr size_t kMaxQueued = 1'000'000;
  static constexpr size_t kBatch = 256;
  void Bring(const std::vector<InodeId>& inodes);

  cache::BlockCache& cache_;
  const metadata::View& view_;
  Fetcher& fetcher_;
  Mutex mutex_;
  CondVar work_;
  std::deque<InodeId> queue_ QUADFS_GUARDED_BY(mutex_);
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace quadfs::fs
