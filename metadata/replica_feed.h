#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "metadata/change_queue.h"
#include "metadata/delegations.h"
#include "metadata/execute.h"
#include "metadata/node_replica.h"
#include "metadata/operation.h"
#include "metadata/provisional_rows.h"
#include "metadata/state_writer.h"
#include "metadata/switching_view.h"
#include "transport/base/mutex.h"

namespace quadfs::metadata {

/// Keeps a node's rows equal to its hub's view: follows the view log from where the rows stand,
/// starts again from a snapshot where the hub has another history. What the node does by itself
/// lies on top as provisional rows until the log shows it.
/// Threads: every method may be called concurrently; it owns the thread that applies.
class ReplicaFeed {
 public:
  /// Called from the thread that follows the stream.
  struct Hooks {
    std::function<void(uint64_t node_op)> on_committed;  ///< Main has it.
    std::function<void()> on_rebuilt;                    ///< Another history.
    std::function<void(bool trusted)> on_link;           ///< Stream and main's word are there.
    std::function<void(std::vector<Delegation>)> on_recall;
    std::function<void(uint64_t number)> on_flush_demand;
  };

  ReplicaFeed(NodeReplica::Options options, std::string cluster, transport::Client& hub,
              ChangeQueue& changes, Hooks hooks);
  ~ReplicaFeed() { Stop(); }

  /// Opens the rows that are there. Errors: kIo, kCorruption, kInvalidArgument.
  Result<void> Open();
  void Start();
  void Stop();

  const SwitchingView& view() const { return view_; }
  /// True once there is a tree to show.
  bool ready() const;
  Result<void> WaitReady(Deadline deadline);
  Result<void> WaitApplied(SequenceNumber position, Deadline deadline);
  NodeReplica::Status status() const;
  /// Counts histories: a position of an older one means nothing.
  uint64_t history() const;

  /// Executes on these rows by itself, if the delegations cover it; nothing: they do not.
  /// `note` makes it last and returns its number; called in the order of execution.
  using Note = std::function<Result<uint64_t>(const Operation&)>;
  Result<std::optional<OpResult>> ExecuteHere(const Operation& operation, Delegations& delegations,
                                              const Note& note);
  /// Shows again what an earlier run or an older history did by itself, if it still can be done.
  void Replay(uint64_t node_op, const Operation& operation);
  /// The hub did it: its rows are the log's once entry `view` is here.
  void Settle(uint64_t node_op, uint64_t view);
  /// The hub refused it.
  void Undo(uint64_t node_op);
  /// Directories whose leases it needs, as the rows are now.
  Result<LeaseNeeds> NeedsOf(const Operation& operation) const;
  /// Returns when every ExecuteHere that began before has ended.
  void Quiesce() const;

 private:
  void Follow(std::stop_token stop);
  Result<void> Bootstrap();
  Result<void> OnFrame(uint8_t type, const std::string& payload);
  Result<void> Apply(const std::string& payload);
  Result<std::shared_ptr<SwitchingView::Replica>> OpenRows(const std::string& directory) const;
  void SetLink(bool up, const std::string& problem);

  const NodeReplica::Options options_;
  const std::string cluster_;
  transport::Client& hub_;
  ChangeQueue& changes_;
  const Hooks hooks_;
  SwitchingView view_;

  std::string Folder(uint64_t number) const;
  Result<void> Restore(RowStore& store);
  /// Rows of an operation of this node, provisionally; with the change they make.
  Result<Change> Show(RowStore& store, uint64_t node_op, const std::vector<RowChange>& rows)
      QUADFS_REQUIRES(rows_mutex_);
  Result<void> Reveal(uint64_t node_op) QUADFS_REQUIRES(rows_mutex_);

  // Of the applying thread.
  uint64_t number_ = 0;  ///< Of the folder in use.
  uint64_t position_ = 0;
  Checksum chain_;

  /// Around every change of the rows. Before any other lock of the node's metadata.
  mutable Mutex rows_mutex_;
  TotalsCache totals_ QUADFS_GUARDED_BY(rows_mutex_);
  ProvisionalRows provisional_ QUADFS_GUARDED_BY(rows_mutex_);
  std::map<uint64_t, std::vector<uint64_t>> to_settle_
      QUADFS_GUARDED_BY(rows_mutex_);  ///< Log position → operations answered with it.
  bool damaged_ QUADFS_GUARDED_BY(rows_mutex_) = false;  ///< A write failed: start from a snapshot.

  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool ready_ QUADFS_GUARDED_BY(mutex_) = false;
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
  bool connected_ QUADFS_GUARDED_BY(mutex_) = false;
  bool main_connected_ QUADFS_GUARDED_BY(mutex_) = false;
  uint64_t applied_ QUADFS_GUARDED_BY(mutex_) = 0;
  uint64_t history_ QUADFS_GUARDED_BY(mutex_) = 1;
  Clock::TimePoint main_heard_ QUADFS_GUARDED_BY(mutex_);
  std::string problem_ QUADFS_GUARDED_BY(mutex_) = "no contact with the hub yet";
  std::jthread thread_;
};

}  // namespace quadfs::metadata
