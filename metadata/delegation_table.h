#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "metadata/stream_registry.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace quadfs::metadata {

/// The right of one node to execute in a directory by itself and to tell its hub afterwards.
struct Delegation {
  InodeId directory;
  uint64_t number = 0;  ///< Of this giving, rising; 0: the node made the directory itself.
};

/// A hub's side of delegations: which node of its campus executes in which directory by itself.
/// It is to nodes what LeaseTable is to campuses (delegations of NFSv4.1, RFC 8881 § 10).
///
/// A delegation of a node that answers is recalled: the node sends what it did and gives it back.
/// One of a node that was silent for the session's time is taken. After a recall the directory is
/// not delegated for 10 s. A hub that was restarted does not know what it had given: nodes that
/// ever had something are waited for, until they have spoken or the session's time has passed.
/// Threads: every method may be called concurrently; Free and Flush block.
class DelegationTable {
 public:
  struct Options {
    CampusId campus;
    std::chrono::milliseconds session_ttl{10000};
  };
  /// Makes durable, or forgets, that a node may have delegations.
  using RememberHolder = std::function<Result<void>(NodeId node, bool holds)>;

  DelegationTable(Options options, StreamRegistry& streams, const std::set<NodeId>& holders_before,
                  RememberHolder remember);

  /// A request of that node came in.
  void Heard(NodeId node);
  /// Gives what may be given of these. To be called where no operation of another node can come
  /// between the look at the directories and this.
  std::vector<Delegation> Give(const std::vector<InodeId>& directories, NodeId node);
  /// The node made this directory in one that is delegated to it.
  void NoteMade(InodeId directory, NodeId node);
  void Return(NodeId node, const std::vector<Delegation>& delegations);
  /// The node holds none: it has just come back.
  void ReturnAll(NodeId node);

  bool HeldByOther(const std::vector<InodeId>& directories, NodeId but) const;
  /// Returns when no node but `but` holds any of them. Errors: kTimedOut.
  Result<void> Free(const std::vector<InodeId>& directories, NodeId but, Deadline deadline);

  /// Returns when the other nodes that hold any of these have sent all they did before the call.
  /// Errors: kTimedOut.
  Result<void> Flush(const std::vector<InodeId>& directories, NodeId but, Deadline deadline);
  void Flushed(NodeId node, uint64_t number);

  size_t size() const;
  /// To be called now and then: forgets nodes that did not come back after a restart.
  void Tend();
  void Stop();

 private:
  struct Held {
    NodeId node;
    uint64_t number = 0;
    Clock::TimePoint recalled_at{};
  };

  /// Nodes from before the restart that nobody has heard of yet.
  std::vector<NodeId> AwaitedBut(NodeId but) const QUADFS_REQUIRES(mutex_);
  std::chrono::milliseconds Silent(NodeId node) const QUADFS_REQUIRES(mutex_);
  void Drop(NodeId node) QUADFS_REQUIRES(mutex_);

  const Options options_;
  StreamRegistry& streams_;
  const RememberHolder remember_;
  const Clock::TimePoint started_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::unordered_map<InodeId, Held> held_ QUADFS_GUARDED_BY(mutex_);
  std::map<InodeId, Clock::TimePoint> not_before_ QUADFS_GUARDED_BY(mutex_);
  std::map<NodeId, Clock::TimePoint> heard_ QUADFS_GUARDED_BY(mutex_);
  std::map<NodeId, uint64_t> flushed_ QUADFS_GUARDED_BY(mutex_);
  std::set<NodeId> awaited_ QUADFS_GUARDED_BY(mutex_);
  std::set<NodeId> remembered_ QUADFS_GUARDED_BY(mutex_);
  uint64_t next_number_ QUADFS_GUARDED_BY(mutex_) = 1;
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
};

}  // namespace quadfs::metadata
