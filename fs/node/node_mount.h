#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "cache/block_cache.h"
#include "fs/data/node_data.h"
#include "metadata/change.h"
#include "metadata/local_store.h"
#include "metadata/node_replica.h"
#include "transport/base/result.h"

namespace quadfs::fs {

/// The FUSE mount of a node: names from the replica, bytes from the cache, changes through the hub.
/// Threads: Run blocks; everything else may be called concurrently.
class NodeMount {
 public:
  struct Options {
    std::string mount_point = "/grid";
    std::string node_name;
    NodeId node;
    CampusId campus;
    std::string store_path;  ///< Where the campus's store is mounted on this node; empty: nowhere.
    std::chrono::milliseconds deadline{5000};  ///< Of what needs the network.
    bool wait_when_cut = false;                ///< Wait instead of EIO at the deadline.
    bool allow_other = true;
    bool passthrough = true;  ///< Where kernel and libfuse can.
    uint32_t max_threads = 64;
    std::string extra_options;  ///< Further mount options as from fstab, "ro,nosuid,…".
  };
  struct Status {
    bool passthrough = false;
    uint64_t open_files = 0, inodes = 0, passthrough_opens = 0, cached_opens = 0;
    std::string problem;  ///< The last thing that went wrong in the background; empty if nothing.
  };

  static Result<std::unique_ptr<NodeMount>> Create(Options options, metadata::LocalStore& local,
                                                   cache::BlockCache& cache,
                                                   metadata::NodeReplica& replica, NodeData& data);
  virtual ~NodeMount() = default;

  /// Mounts (the kernel answers from then on). Errors: kInvalidArgument, kBusy, kAccess.
  virtual Result<void> Mount() = 0;
  /// Serves until unmounted or Unmount is called.
  virtual Result<void> Run() = 0;
  /// Publishes what is dirty, unmounts. From any thread.
  virtual void Unmount() = 0;

  /// Publishes dirty files that a crash left, before or while serving; retries until done.
  virtual void Recover() = 0;

  virtual void OnChange(const metadata::Change& change) = 0;
  virtual void OnReset() = 0;
  /// The hub refused what this node had done by itself.
  virtual void OnRefused(const metadata::Operation& operation, const Error& why) = 0;
  virtual Status status() const = 0;

  /// Publishes the inode now if it is dirty (quadfs sync). Errors: as NodeReplica::Submit.
  virtual Result<void> Publish(InodeId inode, Deadline deadline) = 0;
  virtual bool IsDirty(InodeId inode) const = 0;
};

}  // namespace quadfs::fs
