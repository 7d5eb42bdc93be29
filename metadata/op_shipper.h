#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "metadata/delegation_table.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"
#include "transport/client.h"

namespace quadfs::metadata {

/// Tells the hub, in order and in batches, what the node did by itself; gives delegations back
/// after what was done under them. One batch is under way at a time; what cannot be sent is tried
/// again until Stop. Threads: every method may be called concurrently; it owns one thread.
class OpShipper {
 public:
  struct Outcome {
    uint64_t node_op = 0;
    std::optional<Error> refused;
    uint64_t view = 0;     ///< Entry of the hub's view log that shows it.
    bool pending = false;  ///< Main has yet to confirm it.
  };
  struct Hooks {
    std::function<void(const Outcome&)> on_outcome;
    std::function<void(Clock::TimePoint sent)> on_heard;  ///< The hub answered a request sent then.
    std::function<void()> on_returned_all;  ///< The hub knows of no delegation of ours.
    std::function<uint64_t()> answered_below;
    std::function<bool()> keep_alive;  ///< True while the hub must hear of us.
  };

  OpShipper(transport::Client& hub, Hooks hooks) : hub_(hub), hooks_(std::move(hooks)) {}
  ~OpShipper() { Stop(); }
  void Start();
  void Stop();

  void Add(uint64_t node_op, std::string operation);
  /// Forgets what is queued: it will be added anew.
  void Clear();
  void Return(std::vector<Delegation> delegations);
  void ReturnAll();
  /// The hub wants to know when all that was added before has arrived.
  void Answer(uint64_t flush_demand);
  /// Returns when all that was added before the call is answered. `patient`: may wait for more to
  /// travel along. Errors: kUnavailable: at the deadline, or before if the hub takes nothing.
  Result<void> Flush(Deadline deadline, bool patient);
  size_t size() const;

 private:
  struct Item {
    uint64_t node_op = 0;
    std::string operation;
  };
  struct Tail {          ///< What follows the operations that were there when it was asked for.
    uint64_t after = 0;  ///< Count of added operations.
    std::vector<Delegation> returned;
    bool returned_all = false;
    uint64_t flushed = 0;
  };

  void Run(std::stop_token stop);
  bool Urgent() const QUADFS_REQUIRES(mutex_) { return waiters_ > 0 || !tails_.empty(); }
  void AddTail(Tail tail);

  transport::Client& hub_;
  const Hooks hooks_;
  mutable Mutex mutex_;
  CondVar wake_, answered_changed_;
  std::deque<Item> queue_ QUADFS_GUARDED_BY(mutex_);
  std::deque<Tail> tails_ QUADFS_GUARDED_BY(mutex_);
  uint64_t added_ QUADFS_GUARDED_BY(mutex_) = 0;
  uint64_t answered_ QUADFS_GUARDED_BY(mutex_) = 0;
  uint64_t cleared_ QUADFS_GUARDED_BY(mutex_) = 0;   ///< Counts Clear.
  uint64_t failures_ QUADFS_GUARDED_BY(mutex_) = 0;  ///< Batches that did not get through.
  uint32_t in_a_row_ QUADFS_GUARDED_BY(mutex_) = 0;  ///< The last of them.
  std::string problem_ QUADFS_GUARDED_BY(mutex_);
  uint32_t waiters_ QUADFS_GUARDED_BY(mutex_) = 0;
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace quadfs::metadata
