#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "fs/node/file_table.h"
#include "fs/node/inode_table.h"
#include "fs/node/lock_owners.h"
#include "fs/node/lock_waiters.h"
#include "fs/node/node_mount.h"
#include "fs/node/store_reader.h"

namespace quadfs::fs {

class Invalidator;
class Publisher;

/// What the handlers of one mount share. Threads: as its parts. Lifetime: outlives the session.
struct MountCore {
  MountCore(NodeMount::Options given, metadata::LocalStore& local_store, cache::BlockCache& blocks,
            metadata::NodeReplica& names, NodeData& bytes);
  ~MountCore();

  const NodeMount::Options options;
  metadata::LocalStore& local;
  cache::BlockCache& cache;
  metadata::NodeReplica& replica;
  NodeData& data;

  InodeTable inodes;
  FileTable files;
  LockOwners lock_owners;
  LockWaiters lock_waiters;
  StoreReader store;
  std::unique_ptr<Invalidator> invalidator;
  std::unique_ptr<Publisher> publisher;

  std::atomic<bool> passthrough{false};
  std::atomic<uint64_t> open_handles{0}, passthrough_opens{0}, cached_opens{0};

  const metadata::View& view() const { return replica.view(); }
  Deadline NewDeadline() const { return Deadline::After(options.deadline); }

  /// An operation's answer was lost: it may yet happen, and then the kernel knows nothing of it.
  /// For some time own changes are treated like those of others.
  void NoteUncertain();
  bool OwnChangesUncertain() const;

  /// A directory on the disk that new content goes to, for statfs; empty: not known yet.
  std::string CacheDirectory() const;
  void NoteCachePath(const std::string& object_path);

  /// The last thing that went wrong in the background, one line.
  void SetProblem(std::string problem);
  std::string problem() const;

 private:
  std::atomic<int64_t> uncertain_until_ns_{0};
  mutable Mutex mutex_;
  std::string cache_directory_ QUADFS_GUARDED_BY(mutex_);
  std::string problem_ QUADFS_GUARDED_BY(mutex_);
};

}  // namespace quadfs::fs
