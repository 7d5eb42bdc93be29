#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "fs/data/cached_bytes.h"
#include "metadata/change.h"
#include "metadata/hub.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// Carries the nodes' cache reports (to this campus's nodes; from a branch to main, from main to
/// all other campuses) and requests to prefetch (towards the node or hub they name). A new peer is
/// told everything; a node that went is forgotten everywhere.
/// Threads: every method may be called concurrently; a thread of its own sends.
class ReportRelay {
 public:
  /// `prefetch`: told of what is meant for this hub. `poll` 0: a test calls Round.
  ReportRelay(CampusId campus, bool primary, metadata::Hub& hub,
              std::function<void(const metadata::Message&)> prefetch,
              std::chrono::milliseconds poll = std::chrono::milliseconds(1000));
  ~ReportRelay() { Stop(); }

  /// kMessageCacheReport or kMessagePrefetch.
  void OnMessage(const metadata::Message& message);
  void Start();
  void Stop();
  /// Sends what waits and looks after peers that came and went.
  void Round();
  const CachedBytes& cached() const { return cached_; }

 private:
  using Peer = std::pair<CampusId, NodeId>;
  static constexpr size_t kMaxQueued = 4096;  ///< Messages; beyond it peers are told all anew.
  void Report(const metadata::Message& message);
  void Prefetch(const metadata::Message& message);
  void Spread(const CacheReportMessage& report, const std::string& payload, const Peer* only);
  void LookAfterPeers();
  void Forget(NodeId node, CampusId campus);

  const CampusId campus_;
  const bool primary_;
  metadata::Hub& hub_;
  const std::function<void(const metadata::Message&)> prefetch_;
  const std::chrono::milliseconds poll_;
  CachedBytes cached_;

  Mutex mutex_;
  CondVar work_;
  std::deque<metadata::Message> queue_ QUADFS_GUARDED_BY(mutex_);
  bool lost_ QUADFS_GUARDED_BY(mutex_) = false;
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
  // Of the thread that calls Round.
  std::set<Peer> peers_;
  std::map<NodeId, CampusId> campuses_;
  bool main_told_ = false;
  std::jthread thread_;
};

}  // namespace quadfs::fs
