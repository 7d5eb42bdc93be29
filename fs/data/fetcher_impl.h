#pragma once

#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "fs/data/fetch_queue.h"
#include "fs/data/fetcher.h"
#include "fs/data/read_ahead.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// The Fetcher there is: callers register as waiters and queue jobs; fetch threads carve runs from
/// the jobs. Every block asked for and not present is in a job, in flight, or waits for its next
/// attempt; when it is given up, those who wait for it get the error. One mutex, never held across
/// I/O. Bulk never takes the last threads, so that a blocked reader finds one free.
class FetcherImpl final : public Fetcher {
 public:
  FetcherImpl(Options options, BlockSource& source);
  ~FetcherImpl() override { Stop(); }

  Result<void> Ensure(const cache::ObjectRef& object, uint64_t first, uint64_t count,
                      Priority priority, Deadline deadline) override;
  Result<ArrivingBlockRef> AwaitArrival(const cache::ObjectRef& object, uint64_t index,
                                        Priority priority, Deadline deadline) override;
  Result<void> EnsureLater(const cache::ObjectRef& object, uint64_t first, uint64_t count,
                           Priority priority) override;
  Result<std::vector<std::byte>> ReadAround(const cache::ObjectRef& object, uint64_t index,
                                            Deadline deadline) override;
  Result<void> Complete(const cache::ObjectRef& object, Priority priority,
                        Deadline deadline) override;
  Result<void> CompleteLater(const cache::ObjectRef& object, Priority priority) override;
  Result<void> CompleteBundle(const std::vector<cache::ObjectRef>& objects, Priority priority,
                              Deadline deadline) override;
  void NoteRead(const cache::ObjectRef& object, uint64_t offset, uint64_t length) override;
  void Cancel(const ObjectId& object) override;
  Status status() const override;
  void Stop() override;

 private:
  static constexpr size_t kBundleObjects = 64;     ///< Of one request.
  static constexpr size_t kMaxReadAheads = 4096;   ///< Files whose reads are followed.
  static constexpr uint32_t kAttempts = 6;         ///< Of a run that nobody waits for.
  static constexpr uint32_t kCorruptAttempts = 3;  ///< Of a run whose blocks come damaged.

  void Work();
  std::optional<FetchRun> NextRun(FetchJob job) QUADFS_REQUIRES(mutex_);
  void Execute(FetchRun run);
  void ExecuteBundle(const FetchJob& job);
  bool SkipPresent(FetchRun& run);
  Result<void> TakeManifest(FetchRun& run, cache::Manifest manifest);
  Result<void> TakeBlock(FetchRun& run, uint64_t index, std::span<const std::byte> block);
  void Arrived(FetchFlight& flight, uint64_t index, size_t bytes);
  void EndRun(const FetchRun& run, std::optional<Error> error);
  bool ShouldRetry(const FetchRun& run, const Error& error, Clock::TimePoint again,
                   bool& awaited) const QUADFS_REQUIRES(mutex_);
  void GiveUp(FetchFlight& flight, uint64_t first, uint64_t end, const Error& error)
      QUADFS_REQUIRES(mutex_);
  void Unpark(FetchFlight& flight) QUADFS_REQUIRES(mutex_);
  Deadline RunDeadline(const FetchRun& run) const;
  std::shared_ptr<FetchFlight> FlightOf(const cache::ObjectRef& object, uint64_t block_count,
                                        bool has_manifest) QUADFS_REQUIRES(mutex_);
  uint32_t RunBlocks(Priority priority, uint64_t count) const;
  enum class Until : uint8_t { kPresent, kArriving };
  Result<ArrivingBlockRef> Await(const cache::ObjectRef& object, uint64_t first, uint64_t count,
                                 Priority priority, Deadline deadline, Until until);
  Result<ArrivingBlockRef> Wait(const FlightRef& flight, FetchWaiter& waiter, Until until);
  void BeginBlock(FetchFlight& flight, uint64_t index, ArrivingBlockRef block);

  const Options options_;
  const uint32_t bulk_limit_;  ///< Threads that may be busy with what no reader waits for.
  BlockSource& source_;

  mutable Mutex mutex_;
  CondVar work_, bundle_done_;
  FetchQueue queue_ QUADFS_GUARDED_BY(mutex_);
  std::unordered_map<ObjectId, std::weak_ptr<FetchFlight>> flights_ QUADFS_GUARDED_BY(mutex_);
  size_t sweep_at_ QUADFS_GUARDED_BY(mutex_) = 1024;
  std::unordered_map<ObjectId, std::vector<FetchJob>> parked_ QUADFS_GUARDED_BY(mutex_);
  std::unordered_map<ObjectId, ReadAhead> read_aheads_ QUADFS_GUARDED_BY(mutex_);
  uint32_t bulk_active_ QUADFS_GUARDED_BY(mutex_) = 0;
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
  Status status_ QUADFS_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;  ///< Constant until Stop.
};

}  // namespace quadfs::fs
