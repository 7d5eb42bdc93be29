#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "metadata/lock_table.h"
#include "metadata/node_replica.h"
#include "metadata/rocks_view.h"
#include "metadata/row_store.h"
#include "metadata/state_writer.h"
#include "transport/base/mutex.h"

namespace quadfs::test {

class TwinReplica;

/// One namespace that all its replicas see at once: the real rows and operations, no network.
/// Threads: every method may be called concurrently. Lifetime: outlives its replicas.
class TwinNamespace {
 public:
  explicit TwinNamespace(const std::string& directory);

  const metadata::View& view() const { return view_; }
  /// As a node of which nothing is mounted here.
  Result<metadata::OpResult> Submit(const metadata::Operation& operation, const void* origin);
  InodeId NextInode() { return InodeId((uint64_t{1} << 48) | ++next_inode_); }

 private:
  friend class TwinReplica;
  Mutex mutex_;
  std::unique_ptr<metadata::RowStore> store_;
  metadata::TotalsCache totals_ QUADFS_GUARDED_BY(mutex_);
  metadata::RocksView view_;
  uint64_t position_ QUADFS_GUARDED_BY(mutex_) = 0;
  std::atomic<uint64_t> next_inode_{1};
  std::vector<TwinReplica*> replicas_ QUADFS_GUARDED_BY(mutex_);
  metadata::LockTable locks_;
};

/// A node's view of a TwinNamespace, which can be cut off from changing it.
class TwinReplica final : public metadata::NodeReplica {
 public:
  TwinReplica(TwinNamespace& names, NodeId node, metadata::ChangeListener& listener);
  ~TwinReplica() override;

  /// From now on the hub does not answer.
  void Cut() { cut_ = true; }
  void Heal() { cut_ = false; }
  /// The next Submit is done, but its answer is lost.
  void LoseNextAnswer() { lose_answer_ = true; }
  uint64_t barriers() const { return barriers_; }

  Result<void> Start(Deadline) override { return {}; }
  void Stop() override {}
  const metadata::View& view() const override { return names_.view(); }
  Result<metadata::OpResult> Submit(const metadata::Operation& operation, Deadline) override;
  Result<void> Barrier(bool through_main, Deadline, InodeId directory) override;
  Result<void> Flush(Deadline, bool) override { return {}; }
  Result<InodeId> NextInode(Deadline) override;
  Result<void> Lock(const metadata::LockRequest& request, Deadline) override;
  Result<std::optional<metadata::LockHolder>> TestLock(const metadata::LockRequest& request,
                                                       Deadline) override;
  Result<void> ReleaseLocks(InodeId inode, uint64_t owner, Deadline) override;
  Result<void> SendMessage(uint32_t, std::string, Deadline) override { return {}; }
  Result<void> WaitCommitted(Deadline) override { return {}; }
  Status status() const override;

 private:
  friend class TwinNamespace;
  Result<void> Reach() const;

  TwinNamespace& names_;
  const NodeId node_;
  metadata::ChangeListener& listener_;
  std::atomic<bool> cut_{false}, lose_answer_{false};
  std::atomic<uint64_t> barriers_{0};
};

}  // namespace quadfs::test
