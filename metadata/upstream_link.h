#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "metadata/change_queue.h"
#include "metadata/hub_core.h"
#include "transport/base/mutex.h"
#include "transport/client.h"

namespace quadfs::metadata {

/// A branch hub's side of main: follows the global log, ships pending operations, keeps the
/// session alive, gives leases back when they are recalled.
/// Threads: every method may be called concurrently; it owns three threads.
class UpstreamLink {
 public:
  struct Options {
    CampusId campus;
    std::string cluster;
    std::chrono::milliseconds session_trust{8000};
    std::chrono::milliseconds heartbeat{200};
    /// Called with leases that main wants back: gets them back from the nodes. Errors: not yet.
    std::function<Result<void>(const std::vector<InodeId>&)> before_giving_back;
  };
  /// Called when main's log is another history than ours: rebuild the state, then follow on.
  using RebuildCallback = std::function<Result<void>()>;

  UpstreamLink(Options options, HubCore& core, transport::Client& main, ChangeQueue& changes);
  ~UpstreamLink() { Stop(); }
  void Start();
  void Stop();

  /// Main's word is younger than the trust time: leases count.
  bool Trusted() const;
  std::chrono::milliseconds MainSilent() const;
  std::string problem() const;
  /// After the start: returns when main has answered, or could not be reached, once.
  void WaitFirstTry(Deadline deadline) const;

  /// Whether this campus may execute in these directories itself now.
  Result<bool> Holds(const std::vector<InodeId>& directories) const;
  /// While one lives, no operation in these directories is executed here. Waits for none.
  class Hold;
  /// True if a Hold covers one of them, or, unless `done_before`, a recall.
  bool IsHeld(const std::vector<InodeId>& directories, bool done_before) const;
  void WaitNotHeld(const std::vector<InodeId>& directories, Deadline deadline) const;

  /// Returns when main has merged everything accepted here so far.
  Result<void> Drain(Deadline deadline);
  /// Returns when the state shows global entry `sequence`.
  Result<void> WaitApplied(uint64_t sequence, Deadline deadline);

 private:
  friend class Hold;

  void Follow(std::stop_token stop);
  void Ship(std::stop_token stop);
  void KeepSession(std::stop_token stop);
  void GiveBack(const std::vector<InodeId>& directories);
  Result<void> OnFrame(uint8_t type, const std::string& payload);
  void NoteContact(Clock::TimePoint sent);
  void NoteProblem(const std::string& problem);

  const Options options_;
  HubCore& core_;
  transport::Client& main_;
  ChangeQueue& changes_;

  mutable Mutex mutex_;
  mutable CondVar changed_;           ///< For those that wait for an answer of main.
  CondVar ship_wake_, session_wake_;  ///< Of the threads of these names.
  Clock::TimePoint contact_ QUADFS_GUARDED_BY(mutex_);
  std::string problem_ QUADFS_GUARDED_BY(mutex_) = "no contact with main yet";
  bool tried_ QUADFS_GUARDED_BY(mutex_) = false;
  uint64_t shipped_ QUADFS_GUARDED_BY(mutex_) = 0;
  std::map<InodeId, uint32_t> held_ QUADFS_GUARDED_BY(mutex_);
  std::set<InodeId> recalled_ QUADFS_GUARDED_BY(mutex_);
  std::vector<InodeId> to_give_back_ QUADFS_GUARDED_BY(mutex_);
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;

 public:
  /// Wakes the shipper: something was accepted.
  void Accepted() {
    MutexLock lock(mutex_);
    ship_wake_.NotifyOne();
  }

 private:
  std::jthread follower_;
  std::jthread shipper_;
  std::jthread session_;
};

class UpstreamLink::Hold {
 public:
  Hold(UpstreamLink& link, std::vector<InodeId> directories)
      : link_(link), directories_(std::move(directories)) {
    MutexLock lock(link_.mutex_);
    for (const InodeId directory : directories_) ++link_.held_[directory];
  }
  ~Hold() {
    MutexLock lock(link_.mutex_);
    for (const InodeId directory : directories_) {
      if (--link_.held_[directory] == 0) link_.held_.erase(directory);
    }
    link_.changed_.NotifyAll();
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  UpstreamLink& link_;
  std::vector<InodeId> directories_;
};

}  // namespace quadfs::metadata
