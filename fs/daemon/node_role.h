#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "cache/block_cache.h"
#include "fs/daemon/config.h"
#include "fs/daemon/enrolment.h"
#include "fs/daemon/index_adapter.h"
#include "fs/data/node_data.h"
#include "fs/node/node_mount.h"
#include "metadata/local_store.h"
#include "metadata/node_replica.h"
#include "transport/base/mutex.h"
#include "transport/client.h"

namespace quadfs::daemon {

/// A node, joined from its parts: local rows, cache, connection to its hub, replica, data plane and
/// the mount, which may come and go while the rest stays.
/// Threads: every method may be called concurrently, Stop once.
class NodeRole {
 public:
  /// Returns when the tree is mounted. Waits for the hub as long as `stop` is not asked for, if
  /// this node has no replica yet. `local`: enrolment in this process, may be nullptr.
  /// `mount_options`: as in fstab. `on_unmounted`: called when the mount has gone, from its thread.
  static Result<std::unique_ptr<NodeRole>> Start(const Config& config, Enrolment* local,
                                                 const std::string& mount_options,
                                                 std::function<void()> on_unmounted,
                                                 std::stop_token stop);
  ~NodeRole();

  const std::string& name() const { return name_; }
  const std::string& mount_point() const { return mount_options_.mount_point; }
  metadata::NodeReplica& replica() { return *replica_; }
  fs::NodeData& data() { return *data_; }
  cache::BlockCache& cache() { return *cache_; }
  /// The mount, if there is one now.
  std::shared_ptr<fs::NodeMount> mount() const;

  /// Mounts again. Errors: kBusy (it is mounted), those of NodeMount.
  Result<void> Mount(const std::string& extra_options);
  /// Unmounts as umount(8) does. Errors: kBusy (in use, unless `lazy`), kNotFound (not mounted).
  Result<void> Unmount(bool lazy, Deadline deadline);

  void SetLimit(uint64_t bytes_per_second) { data_->write_back().SetLimit(bytes_per_second); }
  void ResetConnections() { hub_->Reset(); }
  /// Publishes what is dirty, unmounts, ends the parts in order. Idempotent.
  void Stop();

 private:
  class Listener;
  NodeRole();
  Result<void> Open(const Config& config, Enrolment* local);
  Result<void> EnsureEnrolled(const Config& config, Enrolment* local);
  Result<void> WaitForTree(std::stop_token stop);
  void Serve(const std::shared_ptr<fs::NodeMount>& mount);

  std::string name_;
  fs::NodeMount::Options mount_options_;
  std::function<void()> on_unmounted_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<metadata::LocalStore> local_;
  std::unique_ptr<IndexAdapter> cache_index_;
  std::unique_ptr<cache::BlockCache> cache_;
  std::unique_ptr<transport::Client> hub_;
  std::unique_ptr<metadata::NodeReplica> replica_;
  std::unique_ptr<fs::NodeData> data_;

  mutable Mutex mutex_;
  CondVar unmounted_;
  std::shared_ptr<fs::NodeMount> mount_ QUADFS_GUARDED_BY(mutex_);
  bool stopped_ QUADFS_GUARDED_BY(mutex_) = false;
  std::jthread server_;  ///< Of the mount; replaced by Mount.
};

}  // namespace quadfs::daemon
