#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cache/block_cache.h"
#include "fs/data/arriving_block.h"
#include "fs/data/fetcher.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// Somebody who waits for blocks [next, end) of an object. Lives on the waiter's stack.
struct FetchWaiter {
  uint64_t next = 0, end = 0;
  Clock::TimePoint deadline;
  std::optional<Error> error;  ///< One of its blocks was given up.
};

/// An object of which blocks are being fetched or waited for. All guarded by the fetcher's mutex.
struct FetchFlight {
  FetchFlight(cache::ObjectRef object_ref, uint64_t blocks, bool manifest_known)
      : object(std::move(object_ref)),
        id(object->id()),
        block_count(blocks),
        has_manifest(manifest_known) {}
  const cache::ObjectRef object;
  const ObjectId id;
  const uint64_t block_count;
  bool has_manifest;
  bool manifest_in_flight = false;  ///< A run brings it; the others are parked meanwhile.
  uint64_t version = 0;             ///< Counts blocks that arrived.
  std::unordered_set<uint64_t> in_flight;
  std::unordered_map<uint64_t, ArrivingBlockRef> arriving;  ///< Of those in flight.
  std::list<FetchWaiter*> waiters;
  std::optional<Error> last_error;
  CondVar changed;
};
using FlightRef = std::shared_ptr<FetchFlight>;

/// Blocks [next, end) of one object that are to be fetched, or a bundle of small objects.
struct FetchJob {
  using Priority = Fetcher::Priority;
  FlightRef flight;
  uint64_t next = 0, end = 0;
  Priority priority = Priority::kReader;
  uint32_t run_blocks = 1;
  uint32_t attempts = 0;
  std::vector<FlightRef> bundle;           ///< Not empty: `flight` is none.
  std::shared_ptr<uint64_t> bundles_left;  ///< Of the caller of CompleteBundle.
};

/// A piece of a job in the hands of a fetch thread; its blocks are marked as in flight.
struct FetchRun {
  FlightRef flight;
  uint64_t first = 0, end = 0;
  Fetcher::Priority priority = Fetcher::Priority::kReader;
  uint32_t attempts = 0;
  uint32_t run_blocks = 1;
  bool with_manifest = false;
};

/// What is to be fetched next. It knows no threads and does no I/O: the Fetcher guards it.
class FetchQueue {
 public:
  using Priority = Fetcher::Priority;
  static constexpr size_t kPriorities = 4;

  explicit FetchQueue(size_t limit) : limit_(limit) {}

  /// False: the queue is full (never for readers, whose number bounds them).
  bool Push(FetchJob job);
  void PushFront(FetchJob job);
  void PushLater(FetchJob job, Clock::TimePoint at);
  /// Jobs whose back-off is over come back. Returns when the next one will be.
  std::optional<Clock::TimePoint> Wake(Clock::TimePoint now);
  /// The next job of `lowest` priority or better; none: nothing to do.
  std::optional<FetchJob> Pop(Priority lowest);
  /// Takes out all read-ahead and completion of an object that nobody waits for.
  std::vector<FetchJob> Cancel(const ObjectId& object);
  std::vector<FetchJob> TakeAll();
  size_t size() const;

  /// Marks the next contiguous piece of `job` that is not in flight; an empty run: nothing is left.
  static FetchRun Carve(FetchJob& job);

 private:
  const size_t limit_;
  std::array<std::list<FetchJob>, kPriorities> jobs_;
  std::multimap<Clock::TimePoint, FetchJob> later_;
};

}  // namespace quadfs::fs
