#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "metadata/hub.h"
#include "metadata/sequence_log.h"
#include "metadata/wire.h"
#include "transport/base/mutex.h"
#include "transport/server.h"

namespace quadfs::metadata {

/// The standing streams of a hub: entries of a log, messages and heartbeats to each follower.
/// A follower that is 64 MiB of messages behind is cut off; it comes back and resumes.
/// Threads: every method may be called concurrently; Serve blocks in its connection's thread.
class StreamRegistry {
 public:
  using HeartbeatSource = std::function<std::string()>;  ///< A serialised wire::Heartbeat.

  StreamRegistry(SequenceLog& log, std::chrono::milliseconds heartbeat, HeartbeatSource source)
      : log_(log), heartbeat_(heartbeat), source_(std::move(source)) {}

  /// GET /v1/log?from=&chain=: until the peer goes or Stop.
  void Serve(transport::Request& request, transport::Response& response, CampusId campus,
             NodeId node);
  /// Queues a frame. Errors: kUnavailable: no stream to that follower.
  Result<void> Send(CampusId campus, NodeId node, FrameType type, const std::string& payload);
  /// To everyone.
  void SendAll(FrameType type, const std::string& payload);
  bool IsConnected(CampusId campus, NodeId node) const;
  std::vector<Hub::PeerStatus> Peers() const;
  void Stop();

 private:
  struct Outbox {
    std::deque<std::string> frames;
    size_t bytes = 0;
    uint64_t position = 0;
    bool closed = false;
  };
  using Follower = std::pair<CampusId, NodeId>;

  Result<void> Pump(transport::Response& response, Outbox& outbox, uint64_t after);

  static constexpr size_t kMaxOutboxBytes = size_t{64} << 20;

  SequenceLog& log_;
  const std::chrono::milliseconds heartbeat_;
  const HeartbeatSource source_;
  mutable Mutex mutex_;
  std::map<Follower, std::shared_ptr<Outbox>> outboxes_ QUADFS_GUARDED_BY(mutex_);
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
};

}  // namespace quadfs::metadata
