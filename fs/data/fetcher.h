#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cache/block_cache.h"
#include "fs/data/block_source.h"
#include "transport/base/clock.h"
#include "transport/base/result.h"

namespace quadfs::fs {

/// Brings missing blocks into a BlockCache. However many ask for a block, it is fetched once.
/// Blocked readers go before read-ahead, read-ahead before completion, completion before prefetch.
/// A small number of threads, each with a connection of its own, carries runs of blocks.
/// Threads: every method may be called concurrently.
class Fetcher {
 public:
  enum class Priority : uint8_t { kReader, kReadAhead, kCompletion, kPrefetch };
  struct Options {
    uint32_t connections = 6;         ///< Fetches under way at once.
    uint32_t reader_run_blocks = 4;   ///< Blocks per request for a blocked reader.
    uint32_t bulk_run_blocks = 16;    ///< And for read-ahead, completion, prefetch.
    uint32_t read_ahead_blocks = 64;  ///< Largest window of a sequential reader.
    uint32_t queue_limit = 65536;     ///< Runs waiting; beyond it prefetches are refused.
    /// By when a run that nobody waits for must have ended.
    std::chrono::milliseconds background_deadline{60000};
    std::chrono::milliseconds first_back_off{50};  ///< After a failed run; doubles, at most 2 s.
  };
  struct Status {
    uint64_t fetched_blocks = 0, fetched_bytes = 0, failed_runs = 0, corrupt_blocks = 0,
             queued_runs = 0;
    std::string problem;  ///< The last failure, empty after a success.
  };

  static std::unique_ptr<Fetcher> Create(Options options, cache::BlockCache& cache,
                                         BlockSource& source);
  virtual ~Fetcher() = default;

  /// Returns when blocks [first, first + count) are present in `object` (fetching its manifest
  /// first if need be), or fails at the deadline. Errors: as BlockSource, kNoSpace, kIo.
  virtual Result<void> Ensure(const cache::ObjectRef& object, uint64_t first, uint64_t count,
                              Priority priority, Deadline deadline) = 0;
  /// As Ensure for one block, for who passes it on: returns as soon as it begins to come in.
  /// None: it is present.
  virtual Result<ArrivingBlockRef> AwaitArrival(const cache::ObjectRef& object, uint64_t index,
                                                Priority priority, Deadline deadline) = 0;
  /// Queues blocks [first, first + count) and returns. kBusy: the queue is full.
  virtual Result<void> EnsureLater(const cache::ObjectRef& object, uint64_t first, uint64_t count,
                                   Priority priority) = 0;
  /// One block past the cache, checked, for when Ensure says kNoSpace.
  virtual Result<std::vector<std::byte>> ReadAround(const cache::ObjectRef& object, uint64_t index,
                                                    Deadline deadline) = 0;
  /// Ensure for the whole object, which is then complete.
  virtual Result<void> Complete(const cache::ObjectRef& object, Priority priority,
                                Deadline deadline) = 0;
  /// Queues it and returns. kBusy: the queue is full.
  virtual Result<void> CompleteLater(const cache::ObjectRef& object, Priority priority) = 0;
  /// Brings whole small objects (at most one block each) in one request; those it could not bring
  /// are simply not complete afterwards.
  virtual Result<void> CompleteBundle(const std::vector<cache::ObjectRef>& objects,
                                      Priority priority, Deadline deadline) = 0;
  /// A program read [offset, offset + length): extends the read-ahead of that object, and begins
  /// completion in the background once it is being read in sequence.
  virtual void NoteRead(const cache::ObjectRef& object, uint64_t offset, uint64_t length) = 0;
  /// Forgets what is queued for it (last handle closed).
  virtual void Cancel(const ObjectId& object) = 0;

  virtual Status status() const = 0;
  virtual void Stop() = 0;
};

}  // namespace quadfs::fs
