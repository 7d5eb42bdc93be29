#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "metadata/local_store.h"
#include "metadata/operation.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace quadfs::metadata {

/// A node's own operations from before they are sent until main has them: rows of the LocalStore.
/// Numbers them. Threads: every method may be called concurrently.
class Journal {
 public:
  explicit Journal(LocalStore& local) : local_(local) {}
  /// Continues after the highest number ever used. Errors: kIo.
  Result<void> Open();

  struct Ticket {
    uint64_t node_op = 0;
    uint64_t answered_below = 0;  ///< Every operation below has been answered.
  };
  /// `shown`: the node does it by itself, programs see it before the hub knows.
  Result<Ticket> Add(const Operation& operation, bool shown);
  /// It has its answer; `accepted`: the hub did it, so it stays until main confirms.
  void Answered(uint64_t node_op, bool accepted);
  /// Main has it.
  void Committed(uint64_t node_op);
  /// Operations without an answer, oldest first: of this run and of earlier ones.
  Result<std::map<uint64_t, Operation>> Unanswered(bool shown) const;
  /// Every operation below has been answered.
  uint64_t answered_below() const;
  /// The hub lost its memory: what it had accepted is without an answer again. Returns what of it
  /// was not done by the node itself.
  std::set<uint64_t> Reopen();
  uint64_t size() const;
  /// Waits until nothing accepted is left. Errors: kTimedOut.
  Result<void> WaitEmpty(Deadline deadline);

 private:
  static constexpr const char* kFamily = "journal";
  std::string KeyOf(uint64_t node_op) const QUADFS_REQUIRES(mutex_);
  void Erase(uint64_t node_op) QUADFS_REQUIRES(mutex_);

  LocalStore& local_;
  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t next_ QUADFS_GUARDED_BY(mutex_) = 1;
  uint64_t reserved_ QUADFS_GUARDED_BY(mutex_) = 1;
  std::set<uint64_t> open_ QUADFS_GUARDED_BY(mutex_);      ///< Without an answer.
  std::set<uint64_t> accepted_ QUADFS_GUARDED_BY(mutex_);  ///< Answered, not confirmed by main.
  std::set<uint64_t> early_ QUADFS_GUARDED_BY(mutex_);     ///< Confirmed before the answer came.
  std::set<uint64_t> shown_ QUADFS_GUARDED_BY(mutex_);     ///< Of both: done by the node itself.
};

}  // namespace quadfs::metadata
