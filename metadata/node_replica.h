#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "metadata/change.h"
#include "metadata/locks.h"
#include "metadata/operation.h"
#include "metadata/view.h"
#include "transport/base/clock.h"
#include "transport/base/result.h"
#include "transport/client.h"

namespace quadfs::metadata {

class LocalStore;

/// A node's replica of the namespace, fed by its hub's view log, and its way to change it.
///
/// Reads are local. A change goes to the hub, and Submit returns when this replica shows it (read
/// your own writes). In directories that the hub has delegated to this node it is done here, and
/// the hub is told a moment later. What the hub has accepted stays in the node's journal until main
/// has it too.
/// Threads: every method may be called concurrently.
/// Errors of every call that asks the hub: kUnavailable (no contact, nothing was done), kTimedOut
/// (outcome unknown; the journal repeats it, exactly once), and the operation's own.
class NodeReplica {
 public:
  struct Options {
    std::string directory;  ///< RocksDB of the replica; may be deleted, is then rebuilt.
    std::string cluster;    ///< Rows of another cluster are refused.
    CampusId campus;
    NodeId node;
    std::chrono::milliseconds silence{2000};  ///< The stream carries a heartbeat each 200 ms.
    uint64_t block_cache_bytes = uint64_t{64} << 20;
  };
  struct Status {
    bool connected = false;            ///< The stream from the hub is up.
    bool main_connected = false;       ///< And the hub has contact with main.
    std::chrono::milliseconds lag{0};  ///< Time since the hub, as we see it, last had main's word.
    SequenceNumber position;
    uint64_t journal_entries = 0;  ///< Own operations that main has not confirmed yet.
    uint64_t delegations = 0;      ///< Directories in which this node works by itself.
    uint64_t untold = 0;           ///< Own operations that the hub has not heard of yet.
    std::string problem;           ///< Why not connected, one line; empty if it is.
  };

  /// `listener` hears of every applied change from Start on; it outlives the replica.
  static Result<std::unique_ptr<NodeReplica>> Open(Options options, LocalStore& local,
                                                   transport::Client& hub,
                                                   ChangeListener& listener);
  virtual ~NodeReplica() = default;

  /// Starts the stream and returns once there is a tree to show: at once from an earlier replica,
  /// else after bootstrap. Errors: kUnavailable, kTimedOut, kUnauthenticated.
  virtual Result<void> Start(Deadline deadline) = 0;
  virtual void Stop() = 0;

  virtual const View& view() const = 0;

  /// Executes here or at the hub; returns when view() shows it. Fills in nothing: take NextInode
  /// for kCreate. kPublish and kSetAttributes that cannot reach the hub are not queued here.
  virtual Result<OpResult> Submit(const Operation& operation, Deadline deadline) = 0;

  /// After it, view() is at least as new as the hub's was when it was called. With `through_main`
  /// as main's was. Many callers share one request. In `directory`, if given, also what other
  /// nodes of the campus did by themselves is seen.
  virtual Result<void> Barrier(bool through_main, Deadline deadline, InodeId directory = {}) = 0;

  /// Returns when the hub has all that was done here by delegation before the call, on its disk.
  /// Errors: kUnavailable: it has not yet, but it is on this node's disk, in the journal; kIo.
  /// `patient`: it need not be hurried, nor be on this node's disk.
  virtual Result<void> Flush(Deadline deadline, bool patient) = 0;

  /// A number no inode ever had. Errors: kUnavailable if the block is used up and no hub answers.
  virtual Result<InodeId> NextInode(Deadline deadline) = 0;

  /// kWouldBlock: held by somebody else (after `request.wait`). kDeadlock. Locks of this node are
  /// dropped by the hub 10 s after contact is lost.
  virtual Result<void> Lock(const LockRequest& request, Deadline deadline) = 0;
  /// What F_GETLK answers; none: the lock could be had.
  virtual Result<std::optional<LockHolder>> TestLock(const LockRequest& request,
                                                     Deadline deadline) = 0;
  /// Drops every lock of that owner on the inode (close of a descriptor).
  virtual Result<void> ReleaseLocks(InodeId inode, uint64_t owner, Deadline deadline) = 0;

  /// Sends a message to the hub's listener.
  virtual Result<void> SendMessage(uint32_t kind, std::string payload, Deadline deadline) = 0;

  /// True when main has confirmed every operation of this node so far; waits until `deadline`.
  virtual Result<void> WaitCommitted(Deadline deadline) = 0;

  virtual Status status() const = 0;
};

}  // namespace quadfs::metadata
