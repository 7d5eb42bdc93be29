#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "fs/node/mount_core.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// Turns what programs changed into published versions: at close, every now and then while they
/// write, and again and again in the background while the hub is away. It never drops a change.
///
/// A file leaves the dirty state when its last writer closed it, it is published as it is, and no
/// mapping of it is left (passthrough maps the local file itself, which outlives the handles).
/// Threads: every method may be called concurrently. The caller of Publish and Finish holds the
/// file's turn.
class Publisher {
 public:
  explicit Publisher(MountCore& core) : core_(core) {}
  ~Publisher() { Stop(); }

  void Start();
  void Stop();

  /// Publishes the file if it was changed. What the hub's absence prevents is done later and is not
  /// an error here. Errors: kIo, kNoSpace of the local disk.
  Result<void> Publish(OpenFile& file, Deadline deadline);
  /// The same, with the hub's errors.
  Result<void> PublishNow(OpenFile& file, Deadline deadline);
  /// After the last writer closed: publishes, and ends the dirty state.
  Result<void> Finish(OpenFile& file, Deadline deadline);

  /// The hub refused to name these bytes: they become a change again, on top of what it has.
  void Republish(const ObjectId& refused);

  /// Has the background look at it after `delay`.
  void Later(uint64_t nodeid, std::chrono::milliseconds delay);
  /// Takes up what an earlier run left dirty or not handed to write-back.
  void Recover();
  /// Publishes all that is dirty, as far as it goes until `deadline`.
  void Drain(Deadline deadline);

  /// A file that stays open for writing is published this often: a log soon enough to be followed
  /// elsewhere, a large file not so often that reading it takes more than a fiftieth of the time.
  static std::chrono::steady_clock::duration WhileOpen(const OpenFile& file) {
    constexpr std::chrono::steady_clock::duration kSoonest = std::chrono::seconds(5);
    constexpr std::chrono::steady_clock::duration kLatest = std::chrono::seconds(30);
    return std::clamp(50 * file.reading_time, kSoonest, kLatest);
  }

 private:
  struct Item {
    FileTable::Ref file;
    std::chrono::steady_clock::time_point due;
    std::chrono::milliseconds back_off{100};
    bool running = false;
    bool poked = false;  ///< Later was called while it was running.
  };

  Result<void> PublishContent(OpenFile& file, Deadline deadline);
  Result<metadata::Attributes> RowOf(const OpenFile& file) const;
  Result<void> PublishTime(OpenFile& file, InodeId inode, int64_t mtime_ns, Deadline deadline);
  Result<void> Accept(OpenFile& file, Generation generation, cache::Manifest manifest,
                      const FileSignature& before);
  Result<void> Reconcile(OpenFile& file, const metadata::Attributes& row,
                         const cache::Manifest& ours, Deadline deadline);
  Result<void> EndDirty(OpenFile& file);
  bool Mapped(const OpenFile& file) const;
  void Work(const std::stop_token& stop);
  void FollowVersion(OpenFile& file);
  void WatchOpenFiles(const std::stop_token& stop);
  /// When to look again; none: done.
  std::optional<std::chrono::milliseconds> Attend(Item& item);

  MountCore& core_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
  std::unordered_map<uint64_t, Item> items_ QUADFS_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;
};

}  // namespace quadfs::fs
