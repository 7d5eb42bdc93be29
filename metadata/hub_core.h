#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "metadata/change_queue.h"
#include "metadata/codec.h"
#include "metadata/group_sync.h"
#include "metadata/operation.h"
#include "metadata/rocks_view.h"
#include "metadata/row_store.h"
#include "metadata/sequence_log.h"
#include "metadata/state_writer.h"
#include "transport/base/mutex.h"
#include "transport/client.h"

namespace quadfs::metadata {

/// Who an operation comes from, for exactly-once.
struct OpOrigin {
  CampusId campus;
  NodeId node;  ///< 0: the hub itself; such operations are not remembered.
  uint64_t node_op = 0;
  uint64_t answered_below = 0;
};

/// State, logs and pending operations of a hub, changed under one lock, one atomic write each.
///
/// At main an operation is committed when accepted: the global log is the view log. At a branch,
/// accepted operations are provisional: state rows show them, shadow rows keep the global value
/// until main has answered (design § 4.2).
/// Threads: every method may be called concurrently. Waiting for the disk is done outside the lock.
class HubCore {
 public:
  struct Options {
    std::string directory;
    std::string cluster;
    CampusId campus;
    bool primary = false;
    uint64_t block_cache_bytes = uint64_t{256} << 20;
  };
  static Result<std::unique_ptr<HubCore>> Open(const Options& options, ChangeQueue& changes);

  const RocksView& view() const { return *view_; }
  const RowStore& store() const { return *store_; }
  /// What nodes are fed with; at main also what hubs are fed with.
  SequenceLog& view_log() { return *view_log_; }
  /// Last entry of the global log that the state shows.
  uint64_t global() const;
  Checksum global_chain() const;

  /// Remembered answer of an operation, if it was executed before.
  Result<std::optional<Result<OpResult>>> FindAnswer(const OpOrigin& origin) const;
  /// True if it was accepted here and main has not answered yet.
  Result<bool> IsPending(const OpOrigin& origin) const;

  /// Decides whether an operation may be executed here now; called under the lock.
  /// Returns an error to refuse it.
  using Gate = std::function<Result<void>(const RowReader& state)>;

  /// What became of an operation. Nobody is told of it before Finish(sequence).
  struct Accepted {
    OpResult result;
    uint64_t sequence = 0;  ///< Of its entry in the view log; 0: it is on disk already.
    bool pending = false;   ///< Main has not answered it.
  };
  /// As Execute, but not on the disk yet.
  Result<Accepted> Accept(const Operation& operation, const OpOrigin& origin, const Gate& gate,
                          const std::vector<InodeId>& lease_directories);
  /// Returns when no gate that began before the call is still deciding, or acting on its decision.
  void Quiesce() const;
  /// Makes the entries up to `sequence` durable and shows them. Errors: kIo.
  Result<void> Finish(uint64_t sequence);

  /// Executes and makes it durable. At main: commits (`lease_to`: the requester also gets these
  /// directories, if set). At a branch: accepts provisionally.
  /// Errors: the gate's, the operation's own.
  Result<Accepted> Execute(const Operation& operation, const OpOrigin& origin, const Gate& gate,
                           const std::vector<InodeId>& lease_directories);

  /// At main: merges operations of a branch, in order; those merged before are skipped.
  /// Returns the last campus operation merged.
  Result<uint64_t> Merge(CampusId campus, const std::vector<LogEntry>& entries);
  Result<uint64_t> Merged(CampusId campus) const;
  /// At a branch: main has merged operations up to `merged`: new ones are numbered above it, also
  /// when this hub's database was lost.
  void SkipCampusOps(uint64_t merged);
  /// At main: sets or removes leases; durable.
  Result<void> SetLeases(const std::vector<std::pair<InodeId, std::optional<CampusId>>>& leases);
  /// Campus that holds the lease of a directory, if any.
  Result<std::optional<CampusId>> LeaseOf(InodeId directory) const;
  uint64_t lease_count() const;
  /// Operations done under a valid lease on which main decided otherwise: a bug, if there is one.
  uint64_t lease_violations() const { return lease_violations_; }

  /// At a branch: applies entries of the global log that follow global().
  Result<void> ApplyGlobal(const std::vector<std::string>& entries);
  /// At a branch: where main's log stands at global(), as main said.
  void SetGlobalChain(const Checksum& chain);
  /// At a branch without any rows yet: takes main's state as it is now. Errors: kStale if there are
  /// rows (then they are of another history, and pending operations may be among them).
  Result<void> AdoptSnapshot(transport::Client& main);
  /// At a branch: pending operations after `after`, oldest first.
  Result<std::vector<std::pair<uint64_t, std::string>>> Pending(uint64_t after, size_t limit,
                                                                size_t max_bytes) const;
  uint64_t last_pending() const;
  uint64_t pending_count() const;

  /// Nodes that may hold delegations, and a change of it; durable.
  Result<std::set<NodeId>> DelegationHolders() const;
  Result<void> SetDelegationHolder(NodeId node, bool holds);

  /// Reserves `count` inode numbers of this campus; durable.
  Result<uint64_t> ReserveInodes(uint64_t count);
  /// Next number of a counter kept in meta, durable (members).
  Result<uint64_t> NextCounter(const std::string& name, uint64_t first);

  /// A snapshot of the state with the position it shows, for bootstrap.
  struct Image {
    std::unique_ptr<RowSnapshot> snapshot;
    uint64_t position = 0;
    Checksum chain;
    uint64_t global = 0;
  };
  Image TakeImage() const;
  Result<void> Trim(uint64_t keep_bytes);

 private:
  HubCore(const Options& options, ChangeQueue& changes) : options_(options), changes_(changes) {}

  Result<void> Init();
  /// Appends the entry and writes it with its state rows and the engine's own in one batch,
  /// unsynced; returns its number in the view log. After a failed write the hub takes no more
  /// changes.
  Result<uint64_t> Commit(LogEntry& entry, std::vector<RowChange> engine_rows)
      QUADFS_REQUIRES(mutex_);
  Result<uint64_t> MergeOne(CampusId campus, const LogEntry& pending) QUADFS_REQUIRES(mutex_);
  /// True if the campus holds every lease that the operation needs.
  Result<bool> WasLeased(CampusId campus, const LogEntry& pending) const;
  Result<void> Shadow(const std::vector<RowChange>& rows, RowOverlay& engine) const;
  Result<std::vector<RowChange>> ApplyOne(const LogEntry& entry, RowOverlay& engine,
                                          uint64_t& answered) const;
  void Remember(const OpOrigin& origin, const Result<OpResult>& result, uint64_t campus_op,
                std::vector<RowChange>& batch) QUADFS_REQUIRES(mutex_);

  const Options options_;
  ChangeQueue& changes_;
  std::unique_ptr<RowStore> store_;
  std::unique_ptr<RocksView> view_;
  std::unique_ptr<SequenceLog> view_log_;
  std::unique_ptr<GroupSync> sync_;

  mutable Mutex mutex_;
  TotalsCache totals_ QUADFS_GUARDED_BY(mutex_);
  // Written under the lock; read without it, so that who holds another lock may ask.
  std::atomic<uint64_t> global_{0};
  std::atomic<uint64_t> campus_op_{0};
  std::atomic<uint64_t> pending_{0};
  std::atomic<uint64_t> lease_violations_{0};
  std::optional<Error> broken_ QUADFS_GUARDED_BY(mutex_);
  Checksum global_chain_ QUADFS_GUARDED_BY(mutex_);
  std::map<std::pair<CampusId, NodeId>, uint64_t> pruned_ QUADFS_GUARDED_BY(mutex_);
};

}  // namespace quadfs::metadata
