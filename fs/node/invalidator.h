#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <string>
#include <thread>

#include "fs/node/fuse_compat.h"
#include "fs/node/mount_core.h"
#include "metadata/change.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// Keeps the kernel's name, attribute and page caches true: what the replica says has changed
/// elsewhere is taken back from the kernel, on threads of its own (the kernel may wait for a
/// handler of the same directory meanwhile).
///
/// A reply that was under way when the change came may fill the kernel's cache with the old state
/// after it was invalidated; so each invalidation is repeated once, 100 ms later.
/// Threads: every method may be called concurrently; OnChange and the like only queue.
class Invalidator {
 public:
  explicit Invalidator(MountCore& core) : core_(core) {}
  ~Invalidator() { Stop(); }

  void Start(fuse_session* session);
  void Stop();

  void OnChange(const metadata::Change& change);
  /// Everything may have changed.
  void OnReset();
  /// The kernel asks for this inode's attributes again, for its content again.
  void Attributes(uint64_t nodeid);
  void Contents(uint64_t nodeid);
  /// Its size changed and its bytes from `offset` on; what is before stays.
  void Grown(uint64_t nodeid, uint64_t offset);
  /// The kernel looks the inode's (primary) name up again.
  void Name(InodeId inode);
  /// The same for attributes at once; from a handler of open only.
  void AttributesNow(uint64_t nodeid);

 private:
  enum class Kind : uint8_t { kName, kAttributes, kContents, kGrown, kRemoved, kReset };
  struct Item {
    Kind kind = Kind::kReset;
    uint64_t nodeid = 0;  ///< Of kName: the directory.
    std::string name;
    std::chrono::steady_clock::time_point due{};
    uint64_t offset = 0;  ///< Of kGrown.
  };
  struct Lane {
    Mutex mutex;
    CondVar changed;
    std::deque<Item> now QUADFS_GUARDED_BY(mutex), repeat QUADFS_GUARDED_BY(mutex);
    bool overflow QUADFS_GUARDED_BY(mutex) = false;
    std::jthread thread;
  };
  static constexpr size_t kLaneLimit = 65536;  ///< Beyond it everything is invalidated at once.

  void Queue(Item item);
  void Work(Lane& lane, const std::stop_token& stop);
  void Apply(const Item& item);
  void ApplyContents(uint64_t nodeid);
  void ApplyRemoved(InodeId inode);
  void ApplyReset();

  MountCore& core_;
  std::atomic<fuse_session*> session_{nullptr};
  std::array<Lane, 4> lanes_;
};

}  // namespace quadfs::fs
