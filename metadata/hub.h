#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "metadata/change.h"
#include "metadata/operation.h"
#include "metadata/view.h"
#include "transport/base/clock.h"
#include "transport/base/result.h"
#include "transport/client.h"
#include "transport/server.h"

namespace quadfs::metadata {

/// A campus's metadata server; at main it is the primary. It accepts its nodes' operations,
/// keeps its part of the log, streams its view to nodes and (at main) the log to hubs.
/// Threads: every method may be called concurrently.
class Hub {
 public:
  struct Options {
    std::string directory;  ///< RocksDB.
    std::string cluster;
    CampusId campus;
    std::string campus_name;
    std::vector<std::string> advertise;  ///< Own addresses, told to members.
    std::chrono::milliseconds session_ttl{
        10000};  ///< At main: contact lost for so long: leases may go.
    std::chrono::milliseconds session_trust{
        8000};  ///< At a branch: own leases are trusted so long.
    std::chrono::milliseconds heartbeat{200};
    uint64_t log_keep_bytes = uint64_t{20} << 30;
    uint64_t block_cache_bytes = uint64_t{256} << 20;
  };
  struct PeerStatus {
    Member member;
    bool connected = false;
    SequenceNumber position;              ///< Last entry sent.
    std::chrono::milliseconds silent{0};  ///< Since it was last heard.
  };
  struct Status {
    bool primary = false;
    bool main_connected = true;  ///< Always true at main.
    std::string problem;         ///< Why not connected.
    SequenceNumber position;     ///< Of the view log.
    SequenceNumber global;       ///< Of the global log.
    uint64_t pending = 0;        ///< Accepted here, not yet answered by main.
    uint64_t leases = 0;
    uint64_t lease_violations = 0;
    std::vector<PeerStatus> peers;
  };

  /// `upstream` is main's hub, nullptr at main. Errors: kIo, kCorruption, kInvalidArgument
  /// (database of another cluster, campus or of a newer format).
  static Result<std::unique_ptr<Hub>> Open(Options options, transport::Client* upstream,
                                           ChangeListener& listener);
  virtual ~Hub() = default;

  /// Puts its routes (/v1/ops, /v1/log, /v1/merge, …) on the server. Before Start.
  virtual void AddRoutes(transport::Server& server) = 0;
  virtual Result<void> Start() = 0;
  virtual void Stop() = 0;

  virtual const View& view() const = 0;

  /// An operation of the hub itself (kLocate, kMember at main). Retried by the caller.
  virtual Result<OpResult> Submit(const Operation& operation, Deadline deadline) = 0;

  /// At main: enters a new campus or node, or finds the one of that name again.
  /// Errors: kExists (another campus's node has that name).
  virtual Result<Member> Enroll(const Member& wanted, Deadline deadline) = 0;

  /// Sends on the standing stream to a node of this campus (`node` set), or at main to a campus's
  /// hub (`node` 0). Errors: kUnavailable if that stream is down.
  virtual Result<void> SendMessage(CampusId campus, NodeId node, uint32_t kind,
                                   std::string payload) = 0;
  /// Sends to main's listener (at a branch). Errors: kUnavailable, kTimedOut.
  virtual Result<void> SendUpstream(uint32_t kind, std::string payload, Deadline deadline) = 0;

  virtual Status status() const = 0;
};

}  // namespace quadfs::metadata
