#pragma once

#include <memory>
#include <thread>

#include "metadata/delegations.h"
#include "metadata/journal.h"
#include "metadata/node_replica.h"
#include "metadata/op_shipper.h"
#include "metadata/replica_feed.h"

namespace quadfs::metadata {

namespace wire {
class Lock;
class LockAnswer;
}  // namespace wire

/// The NodeReplica: ReplicaFeed for reading, Journal and the hub for changing.
class NodeService final : public NodeReplica {
 public:
  NodeService(Options options, LocalStore& local, transport::Client& hub, ChangeListener& listener);
  ~NodeService() override { Stop(); }
  Result<void> Init();

  Result<void> Start(Deadline deadline) override;
  void Stop() override;
  const View& view() const override { return feed_.view(); }
  Result<OpResult> Submit(const Operation& operation, Deadline deadline) override;
  Result<void> Barrier(bool through_main, Deadline deadline, InodeId directory) override;
  Result<void> Flush(Deadline deadline, bool patient) override;
  Result<InodeId> NextInode(Deadline deadline) override;
  Result<void> Lock(const LockRequest& request, Deadline deadline) override;
  Result<std::optional<LockHolder>> TestLock(const LockRequest& request,
                                             Deadline deadline) override;
  Result<void> ReleaseLocks(InodeId inode, uint64_t owner, Deadline deadline) override;
  Result<void> SendMessage(uint32_t kind, std::string payload, Deadline deadline) override;
  Result<void> WaitCommitted(Deadline deadline) override { return journal_.WaitEmpty(deadline); }
  Status status() const override;

 private:
  /// One barrier under way or wanted, and who waits for which.
  struct BarrierTurn {
    bool running = false;
    uint64_t begun = 0;             ///< Number of the latest request that was begun.
    uint64_t finished = 0;          ///< And of the latest that ended.
    std::set<InodeId> directories;  ///< For the next one.
    Result<void> outcome;
  };

  /// What the hub made of it, and whether main has yet to confirm it.
  struct Sent {
    OpResult result;
    bool pending = false;
    std::vector<Delegation> delegated;
    std::chrono::milliseconds trust{0};
  };
  Result<Sent> Send(const Operation& operation, const Journal::Ticket& ticket, Deadline deadline);
  /// Repeats what an earlier run, or a lost answer, left without an answer.
  void Repeat(std::stop_token stop);
  /// Executes at the hub, after what was done here before and instead of what could be done here.
  Result<OpResult> SubmitToHub(const Operation& operation, Deadline deadline);
  Result<void> AskBarrier(bool through_main, const std::set<InodeId>& directories,
                          Deadline deadline);
  void OnOutcome(const OpShipper::Outcome& outcome);
  /// Shows and queues what the hub has not answered of what was done here.
  void ReplayOwn();
  void GiveUpDelegations();
  Result<wire::LockAnswer> CallLock(const wire::Lock& lock, Deadline deadline);

  const Options options_;
  LocalStore& local_;
  transport::Client& hub_;
  ChangeQueue changes_;
  Journal journal_;
  Delegations delegations_;
  ReplicaFeed feed_;
  OpShipper shipper_;

  Mutex barrier_mutex_;
  CondVar barrier_done_;
  BarrierTurn barrier_[2] QUADFS_GUARDED_BY(barrier_mutex_);
  Mutex inode_mutex_;
  uint64_t next_inode_ QUADFS_GUARDED_BY(inode_mutex_) = 0;
  uint64_t inode_end_ QUADFS_GUARDED_BY(inode_mutex_) = 0;
  Mutex repeat_mutex_;
  CondVar repeat_wake_;
  std::set<uint64_t> unknown_ QUADFS_GUARDED_BY(repeat_mutex_);  ///< Operations without an answer.
  bool stopping_ QUADFS_GUARDED_BY(repeat_mutex_) = false;
  std::jthread repeater_;
};

}  // namespace quadfs::metadata
