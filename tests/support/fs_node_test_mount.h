#pragma once

#include <memory>
#include <string>
#include <thread>

#include "cache/block_cache.h"
#include "cache/index_store.h"
#include "fs/node/node_mount.h"
#include "metadata/local_store.h"
#include "tests/support/fs_node_data.h"
#include "tests/support/fs_node_replica.h"

namespace quadfs::test {

/// What the mounts of one test share: the namespace and each other's bytes.
struct TestCluster {
  explicit TestCluster(const std::string& directory) : names(directory + "/names") {}
  TwinNamespace names;
  PeerSource peers;
};

/// A whole node in this process, really mounted: local rows, cache, fetcher and mount are the real
/// ones, the hub a TwinNamespace. Stop and Start again, or Kill and Start, as a daemon would.
class TestMount {
 public:
  /// Why no file system can be mounted here; empty if one can.
  static std::string WhyNot();

  /// Below `directory`: the mount point "mnt" and everything else.
  TestMount(TestCluster& cluster, std::string directory, uint64_t node,
            fs::NodeMount::Options options = {});
  ~TestMount();

  /// Errors: those of NodeMount.
  Result<void> Start();
  /// Unmounts in order.
  void Stop();

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  fs::NodeMount& mount() { return *mount_; }
  TwinReplica& replica() { return *replica_; }
  cache::BlockCache& cache() { return *cache_; }
  TwinData& data() { return *data_; }
  /// The row of a path of the mount.
  metadata::Attributes RowOf(const std::string& name) const;

 private:
  class Index;
  class Listener;
  TestCluster& cluster_;
  const std::string directory_;
  const std::string path_;
  fs::NodeMount::Options options_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<metadata::LocalStore> local_;
  std::unique_ptr<Index> index_;
  std::unique_ptr<cache::BlockCache> cache_;
  std::unique_ptr<TwinReplica> replica_;
  std::unique_ptr<TwinData> data_;
  std::unique_ptr<fs::NodeMount> mount_;
  std::jthread server_;
};

}  // namespace quadfs::test
