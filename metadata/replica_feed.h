#pragma once

#include <functional>
#include <string>
#include <thread>

#include "metadata/change_queue.h"
#include "metadata/node_replica.h"
#include "metadata/state_writer.h"
#include "metadata/switching_view.h"
#include "transport/base/mutex.h"

namespace quadfs::metadata {

/// Keeps a node's rows equal to its hub's view: follows the view log from where the rows stand,
/// starts again from a snapshot where the hub has another history.
/// Threads: every method may be called concurrently; it owns the thread that applies.
class ReplicaFeed {
 public:
  using CommittedCallback = std::function<void(uint64_t node_op)>;

  ReplicaFeed(NodeReplica::Options options, std::string cluster, transport::Client& hub,
              ChangeQueue& changes, CommittedCallback on_committed,
              std::function<void()> on_rebuilt);
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
  const CommittedCallback on_committed_;
  const std::function<void()> on_rebuilt_;
  SwitchingView view_;

  std::string Folder(uint64_t number) const;

  // Of the applying thread.
  uint64_t number_ = 0;  ///< Of the folder in use.
  TotalsCache totals_;
  uint64_t position_ = 0;
  Checksum chain_;

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
