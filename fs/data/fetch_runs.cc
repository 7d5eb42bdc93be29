// The fetch threads' side of FetcherImpl.
#include <algorithm>

#include "fs/data/fetcher_impl.h"

namespace quadfs::fs {
namespace {

constexpr std::chrono::milliseconds kMaxBackOff{2000};

bool IsPassing(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimedOut:
    case ErrorCode::kCorruption:
    case ErrorCode::kBusy:
    case ErrorCode::kInterrupted:
    case ErrorCode::kUnknown: return true;
    default: return false;
  }
}

}  // namespace

void FetcherImpl::Work() {
  for (;;) {
    std::optional<FetchJob> job;
    std::optional<FetchRun> run;
    bool bulk = false;
    {
      MutexLock lock(mutex_);
      for (;;) {
        if (stopping_) return;
        const auto next_wake = queue_.Wake(std::chrono::steady_clock::now());
        job = queue_.Pop(bulk_active_ < bulk_limit_ ? Priority::kPrefetch : Priority::kReader);
        if (job) break;
        if (next_wake) {
          work_.WaitUntil(mutex_, *next_wake);
        } else {
          work_.Wait(mutex_);
        }
      }
      bulk = job->priority != Priority::kReader;
      if (job->bundle.empty()) {
        run = NextRun(std::move(*job));
        if (!run) continue;
      }
      if (bulk) ++bulk_active_;
      if (queue_.size() > 0) work_.NotifyOne();
    }
    if (run) {
      Execute(std::move(*run));
    } else {
      ExecuteBundle(*job);
    }
    job.reset();
    run.reset();
    MutexLock lock(mutex_);
    if (bulk) --bulk_active_;
    if (queue_.size() > 0) work_.NotifyOne();
  }
}

/// Carves a run; puts the rest of the job back, or parks the job until the manifest is here.
std::optional<FetchRun> FetcherImpl::NextRun(FetchJob job) {
  const FlightRef flight = job.flight;
  const bool needs_manifest = !flight->has_manifest && flight->block_count > 1;
  if (needs_manifest && flight->manifest_in_flight) {
    parked_[flight->id].push_back(std::move(job));
    return std::nullopt;
  }
  FetchRun run = FetchQueue::Carve(job);
  if (job.next < job.end) queue_.PushFront(std::move(job));
  if (run.first == run.end) return std::nullopt;
  run.with_manifest = needs_manifest;
  if (needs_manifest) flight->manifest_in_flight = true;
  return run;
}

void FetcherImpl::Unpark(FetchFlight& flight) {
  flight.manifest_in_flight = false;
  if (auto parked = parked_.extract(flight.id)) {
    auto& jobs = parked.mapped();
    for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) queue_.PushFront(std::move(*job));
    work_.NotifyAll();
  }
}

/// Takes blocks that are here already out of the run (somebody was faster, or they lie in between);
/// false: nothing is left of it.
bool FetcherImpl::SkipPresent(FetchRun& run) {
  const auto& object = *run.flight->object;
  uint64_t first = run.first, end = run.end;
  while (first < end && object.HasBlock(first)) ++first;
  uint64_t stop = first;
  while (stop < end && !object.HasBlock(stop)) ++stop;
  if (first == run.first && stop == end) return true;
  MutexLock lock(mutex_);
  auto& flight = *run.flight;
  for (uint64_t i = run.first; i < first; ++i) flight.in_flight.erase(i);
  for (uint64_t i = stop; i < end; ++i) flight.in_flight.erase(i);
  if (stop < end) {
    queue_.PushFront({run.flight, stop, end, run.priority, run.run_blocks, run.attempts, {}, {}});
  }
  ++flight.version;
  flight.changed.NotifyAll();
  run.first = first;
  run.end = stop;
  if (first == stop && run.with_manifest) Unpark(flight);
  return first < stop;
}

Deadline FetcherImpl::RunDeadline(const FetchRun& run) const {
  MutexLock lock(mutex_);
  std::optional<Clock::TimePoint> latest;
  for (const FetchWaiter* waiter : run.flight->waiters) {
    if (waiter->next < run.end && waiter->end > run.first) {
      latest = std::max(latest.value_or(waiter->deadline), waiter->deadline);
    }
  }
  const auto background = std::chrono::steady_clock::now() + options_.background_deadline;
  return Deadline(latest ? std::min(*latest, background) : background);
}

void FetcherImpl::Execute(FetchRun run) {
  if (!SkipPresent(run)) return;
  const BlockSink sink(
      [&](uint64_t index, std::span<const std::byte> block) {
        return TakeBlock(run, index, block);
      },
      [&](uint64_t index, ArrivingBlockRef block) {
        BeginBlock(*run.flight, index, std::move(block));
      });
  const uint64_t count = run.end - run.first;
  const Deadline deadline = RunDeadline(run);
  auto fetched =
      run.with_manifest
          ? source_.FetchWithManifest(
                run.flight->id, run.first, count, deadline,
                [&](cache::Manifest manifest) { return TakeManifest(run, std::move(manifest)); },
                sink)
          : source_.FetchBlocks(run.flight->id, run.first, count, deadline, sink);
  std::optional<Error> error;
  if (!fetched.ok()) {
    error = std::move(fetched).error();
  } else if (run.first < run.end) {
    error = Error(ErrorCode::kUnavailable, "the source gave fewer blocks than asked for");
  }
  EndRun(run, std::move(error));
}

Result<void> FetcherImpl::TakeManifest(FetchRun& run, cache::Manifest manifest) {
  if (auto set = run.flight->object->SetManifest(std::move(manifest)); !set.ok()) return set;
  MutexLock lock(mutex_);
  run.with_manifest = false;
  run.flight->has_manifest = true;
  Unpark(*run.flight);
  return {};
}

Result<void> FetcherImpl::TakeBlock(FetchRun& run, uint64_t index,
                                    std::span<const std::byte> block) {
  auto& flight = *run.flight;
  if (index != run.first || index >= run.end) {
    return Error(ErrorCode::kCorruption, "the source gave a block that was not asked for");
  }
  if (flight.block_count == 1 && flight.object->manifest() == nullptr) {
    if (auto set = flight.object->SetManifest(cache::Manifest::Of(block)); !set.ok()) return set;
  }
  if (auto stored = flight.object->StoreBlock(index, block); !stored.ok()) {
    if (!flight.object->HasBlock(index)) return stored;  // Else: written over meanwhile.
  }
  ++run.first;
  Arrived(flight, index, block.size());
  MutexLock lock(mutex_);
  if (stopping_) return Error(ErrorCode::kCancelled, "the daemon stops");
  return {};
}

void FetcherImpl::BeginBlock(FetchFlight& flight, uint64_t index, ArrivingBlockRef block) {
  MutexLock lock(mutex_);
  if (!flight.in_flight.contains(index)) return;  // Not one that was asked for.
  flight.arriving[index] = std::move(block);
  ++flight.version;
  flight.changed.NotifyAll();
}

void FetcherImpl::Arrived(FetchFlight& flight, uint64_t index, size_t bytes) {
  MutexLock lock(mutex_);
  flight.in_flight.erase(index);
  flight.arriving.erase(index);
  flight.last_error.reset();
  ++flight.version;
  ++status_.fetched_blocks;
  status_.fetched_bytes += bytes;
  status_.problem.clear();
  flight.changed.NotifyAll();
}

bool FetcherImpl::ShouldRetry(const FetchRun& run, const Error& error, Clock::TimePoint again,
                              bool& awaited) const {
  std::optional<Clock::TimePoint> latest;
  for (const FetchWaiter* waiter : run.flight->waiters) {
    if (waiter->next < run.end && waiter->end > run.first && !waiter->error) {
      latest = std::max(latest.value_or(waiter->deadline), waiter->deadline);
    }
  }
  awaited = latest.has_value();
  if (stopping_ || !IsPassing(error.code())) return false;
  if (error.code() == ErrorCode::kCorruption && run.attempts + 1 >= kCorruptAttempts) return false;
  return awaited ? again < *latest : run.attempts + 1 < kAttempts;
}

void FetcherImpl::GiveUp(FetchFlight& flight, uint64_t first, uint64_t end, const Error& error) {
  for (FetchWaiter* waiter : flight.waiters) {
    if (waiter->next < end && waiter->end > first && !waiter->error) waiter->error = error;
  }
  if (const auto at = read_aheads_.find(flight.id); at != read_aheads_.end()) {
    at->second.CompletionFailed();
  }
}

void FetcherImpl::EndRun(const FetchRun& run, std::optional<Error> error) {
  MutexLock lock(mutex_);
  auto& flight = *run.flight;
  for (uint64_t i = run.first; i < run.end; ++i) {
    flight.in_flight.erase(i);
    flight.arriving.erase(i);
  }
  if (run.with_manifest) Unpark(flight);
  if (!error) return;
  ++status_.failed_runs;
  if (error->code() == ErrorCode::kCorruption) ++status_.corrupt_blocks;
  status_.problem = error->ToString();
  flight.last_error = *error;
  const auto back_off = std::min<std::chrono::milliseconds>(
      kMaxBackOff, options_.first_back_off * (1 << std::min(run.attempts, 6U)));
  const auto again = std::chrono::steady_clock::now() + back_off;
  bool awaited = false;
  if (ShouldRetry(run, *error, again, awaited)) {
    queue_.PushLater({run.flight,
                      run.first,
                      run.end,
                      awaited ? Priority::kReader : run.priority,
                      run.run_blocks,
                      run.attempts + 1,
                      {},
                      {}},
                     again);
    work_.NotifyOne();  // So that somebody waits until then.
  } else {
    GiveUp(flight, run.first, run.end, *error);
    ++flight.version;
    flight.changed.NotifyAll();
  }
}

}  // namespace quadfs::fs
