#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <unordered_map>

#include "fs/data/block_source.h"
#include "metadata/hub.h"
#include "transport/base/mutex.h"
#include "transport/server.h"

namespace quadfs::fs {

/// Gets blocks from a client of this hub, which no connection may go to: a want on its standing
/// stream, answered by a PUT that quotes the want's number. The PUT's handler hands each block to
/// the waiting fetch's sink, so a slow sink slows the sender and nothing piles up.
/// Threads: every method may be called concurrently. Lifetime: the hub outlives it.
class WantBroker {
 public:
  struct Options {
    std::chrono::milliseconds answer{5000};    ///< From the want to the beginning of the PUT.
    std::chrono::milliseconds progress{5000};  ///< Then from block to block.
    size_t max_pending = 4096;                 ///< Wants under way.
  };
  struct Peer {
    CampusId campus;
    NodeId node;  ///< 0: the campus's hub.
    auto operator<=>(const Peer&) const = default;
  };
  struct Wanted {
    ObjectId object;
    uint64_t first = 0, count = 0;
  };

  WantBroker(Options options, metadata::Hub& hub);

  /// `manifest_sink` may be none. The sinks are not called after it returned. Errors: kUnavailable
  /// (the peer's stream is down), kTimedOut, kBusy, what the peer says, what the sinks say.
  Result<void> Fetch(const Peer& peer, const Wanted& wanted, Deadline deadline,
                     const BlockSource::ManifestSink& manifest_sink, const BlockSink& sink);

  /// PUT /v1/data/<object>?want=<id>: the blocks. Errors: kNotFound (unknown number, or another
  /// peer's), kInvalidArgument, and those of the sinks.
  Result<void> TakeBlocks(transport::Request& request, uint64_t id, const Wanted& wanted);
  /// POST /v1/want/<id>: the peer cannot. Errors: kNotFound.
  Result<void> TakeFailure(const transport::PeerIdentity& from, uint64_t id, const Error& error);
  /// Ends all wants with kCancelled.
  void Stop();

 private:
  struct Pending;
  using PendingRef = std::shared_ptr<Pending>;
  Result<PendingRef> Claim(const transport::PeerIdentity& from, uint64_t id, const Wanted& wanted);
  PendingRef FindOf(const transport::PeerIdentity& from, uint64_t id) QUADFS_REQUIRES(mutex_);
  Result<void> Receive(transport::Request& request, Pending& pending);
  Result<void> AwaitEnd(Pending& pending, Deadline deadline) QUADFS_REQUIRES(mutex_);

  const Options options_;
  metadata::Hub& hub_;
  Mutex mutex_;
  std::unordered_map<uint64_t, PendingRef> pending_ QUADFS_GUARDED_BY(mutex_);
  uint64_t next_id_ QUADFS_GUARDED_BY(mutex_);
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
};

}  // namespace quadfs::fs
