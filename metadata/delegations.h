#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "metadata/delegation_table.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace quadfs::metadata {

/// A node's side of delegations: the directories in which it executes by itself.
///
/// They count while the hub's stream is up, the hub trusts its own leases, and the last request
/// that the hub answered was sent less than the trust time ago. When the stream breaks, or the hub
/// loses main, all are given up.
/// Threads: every method may be called concurrently; none blocks.
class Delegations {
 public:
  /// True if the node may execute an operation that needs these directories.
  bool Cover(const std::vector<InodeId>& directories) const;

  /// To be read before a request is sent, and given to Take with what its answer brought: what was
  /// recalled or given up meanwhile is not taken.
  uint64_t turn() const;
  void Take(const std::vector<Delegation>& given, std::chrono::milliseconds trust, uint64_t turn);
  /// A directory made by this node in one that is delegated to it.
  void Made(InodeId directory);
  /// Of those that were demanded back, what is to be returned: all, also what never arrived here.
  void Recall(const std::vector<Delegation>& demanded);
  /// The oldest, if there are more than are worth keeping.
  std::vector<Delegation> TakeExcess();
  /// From now on, until the hub knows it, none is taken.
  void GiveUpAll();
  void GivenUp();

  /// A request sent at that time was answered.
  void Heard(Clock::TimePoint sent);
  /// Returns true if it was up and is not any more.
  bool SetLink(bool up);
  size_t size() const;

  /// While one lives, Cover is false for its directories: the hub executes something there.
  class Pause {
   public:
    explicit Pause(Delegations& delegations) : delegations_(delegations) {}
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    void Add(const std::vector<InodeId>& directories);

   private:
    Delegations& delegations_;
    std::vector<InodeId> directories_;
  };

 private:
  static constexpr size_t kMax = 8192;

  mutable Mutex mutex_;
  std::unordered_map<InodeId, uint64_t> held_ QUADFS_GUARDED_BY(mutex_);  ///< → its number.
  std::deque<InodeId> order_ QUADFS_GUARDED_BY(mutex_);                   ///< As they came.
  std::map<InodeId, uint32_t> paused_ QUADFS_GUARDED_BY(mutex_);
  std::chrono::milliseconds trust_ QUADFS_GUARDED_BY(mutex_){0};
  Clock::TimePoint heard_ QUADFS_GUARDED_BY(mutex_){};
  bool link_ QUADFS_GUARDED_BY(mutex_) = false;
  bool giving_up_ QUADFS_GUARDED_BY(mutex_) = true;
  uint64_t turn_ QUADFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace quadfs::metadata
