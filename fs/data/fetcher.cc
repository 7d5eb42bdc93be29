#include "fs/data/fetcher.h"

#include <algorithm>

#include "fs/data/fetcher_impl.h"

namespace quadfs::fs {
namespace {

uint64_t BlocksOf(const cache::CacheObject& object, const cache::Manifest* manifest) {
  return manifest != nullptr ? manifest->block_count() : cache::BlockCount(object.size_bytes());
}

}  // namespace

std::unique_ptr<Fetcher> Fetcher::Create(Options options, cache::BlockCache&, BlockSource& source) {
  options.connections = std::max(options.connections, 1U);
  options.reader_run_blocks = std::max(options.reader_run_blocks, 1U);
  options.bulk_run_blocks = std::max(options.bulk_run_blocks, 1U);
  return std::make_unique<FetcherImpl>(options, source);
}

FetcherImpl::FetcherImpl(Options options, BlockSource& source)
    : options_(options),
      bulk_limit_(options.connections >= 4   ? options.connections - 2
                  : options.connections >= 2 ? options.connections - 1
                                             : 1),
      source_(source),
      queue_(options.queue_limit) {
  threads_.reserve(options_.connections);
  for (uint32_t i = 0; i < options_.connections; ++i) threads_.emplace_back([this] { Work(); });
}

std::shared_ptr<FetchFlight> FetcherImpl::FlightOf(const cache::ObjectRef& object,
                                                   uint64_t block_count, bool has_manifest) {
  auto& entry = flights_[object->id()];
  auto flight = entry.lock();
  if (flight == nullptr || flight->object != object || flight->block_count != block_count) {
    entry = flight = std::make_shared<FetchFlight>(object, block_count, has_manifest);
    if (flights_.size() > sweep_at_) {
      std::erase_if(flights_, [](const auto& row) { return row.second.expired(); });
      sweep_at_ = std::max<size_t>(1024, flights_.size() * 2);
    }
  }
  flight->has_manifest = flight->has_manifest || has_manifest;
  return flight;
}

uint32_t FetcherImpl::RunBlocks(Priority priority, uint64_t count) const {
  switch (priority) {
    case Priority::kReader: return options_.reader_run_blocks;
    case Priority::kReadAhead:  // A small window is still split, so that several connections share
                                // it.
      return static_cast<uint32_t>(std::clamp<uint64_t>(
          count / 4, std::min(4U, options_.bulk_run_blocks), options_.bulk_run_blocks));
    case Priority::kCompletion:
    case Priority::kPrefetch: return options_.bulk_run_blocks;
  }
  return 1;
}

Result<void> FetcherImpl::Ensure(const cache::ObjectRef& object, uint64_t first, uint64_t count,
                                 Priority priority, Deadline deadline) {
  auto here = Await(object, first, count, priority, deadline, Until::kPresent);
  return here.ok() ? Result<void>() : std::move(here).error();
}

Result<ArrivingBlockRef> FetcherImpl::AwaitArrival(const cache::ObjectRef& object, uint64_t index,
                                                   Priority priority, Deadline deadline) {
  return Await(object, index, 1, priority, deadline, Until::kArriving);
}

Result<ArrivingBlockRef> FetcherImpl::Await(const cache::ObjectRef& object, uint64_t first,
                                            uint64_t count, Priority priority, Deadline deadline,
                                            Until until) {
  if (object->complete()) return ArrivingBlockRef();
  const auto manifest = object->manifest();
  const uint64_t blocks = BlocksOf(*object, manifest.get());
  if (blocks == 0) {
    if (!manifest) QUADFS_TRY(object->SetManifest(cache::Manifest::Of({})));
    return ArrivingBlockRef();
  }
  FetchWaiter waiter{first, std::min(blocks, first + count), deadline.at(), std::nullopt};
  while (waiter.next < waiter.end && object->HasBlock(waiter.next)) ++waiter.next;
  if (waiter.next >= waiter.end) return ArrivingBlockRef();
  FlightRef flight;
  {
    MutexLock lock(mutex_);
    if (stopping_) return Error(ErrorCode::kCancelled, "the daemon stops");
    flight = FlightOf(object, blocks, manifest != nullptr);
    flight->waiters.push_back(&waiter);
    // Registered first: whoever gives up a block from now on tells this waiter.
    if (!queue_.Push({flight,
                      waiter.next,
                      waiter.end,
                      priority,
                      RunBlocks(priority, waiter.end - waiter.next),
                      0,
                      {},
                      {}})) {
      flight->waiters.remove(&waiter);
      return Error(ErrorCode::kBusy, "too much is queued to be fetched: try again later");
    }
    work_.NotifyOne();
  }
  auto outcome = Wait(flight, waiter, until);
  MutexLock lock(mutex_);
  flight->waiters.remove(&waiter);
  return outcome;
}

Result<ArrivingBlockRef> FetcherImpl::Wait(const FlightRef& flight, FetchWaiter& waiter,
                                           Until until) {
  for (;;) {
    uint64_t version = 0;
    {
      MutexLock lock(mutex_);
      version = flight->version;
    }
    // Past the lock: the object has one of its own. `next` is read by others only to see whom a
    // failure concerns, so it moves under ours.
    uint64_t next = waiter.next;
    while (next < waiter.end && flight->object->HasBlock(next)) ++next;
    MutexLock lock(mutex_);
    waiter.next = next;
    if (next >= waiter.end) return ArrivingBlockRef();
    if (until == Until::kArriving) {
      if (const auto at = flight->arriving.find(next); at != flight->arriving.end()) {
        return at->second;
      }
    }
    while (!waiter.error && !stopping_ && flight->version == version) {
      if (!flight->changed.WaitUntil(mutex_, waiter.deadline) && flight->version == version &&
          !waiter.error) {
        if (flight->last_error) return *flight->last_error;
        return Error(ErrorCode::kTimedOut, "block " + std::to_string(next) + " of " +
                                               cache::ObjectName(flight->id) +
                                               " did not arrive in time");
      }
    }
    if (waiter.error) return *waiter.error;
    if (stopping_) return Error(ErrorCode::kCancelled, "the daemon stops");
  }
}

Result<void> FetcherImpl::EnsureLater(const cache::ObjectRef& object, uint64_t first,
                                      uint64_t count, Priority priority) {
  if (object->complete() || count == 0) return {};
  const auto manifest = object->manifest();
  const uint64_t blocks = BlocksOf(*object, manifest.get());
  if (first >= blocks) return {};
  const uint64_t end = first + std::min(count, blocks - first);
  MutexLock lock(mutex_);
  if (stopping_) return Error(ErrorCode::kCancelled, "the daemon stops");
  if (!queue_.Push({FlightOf(object, blocks, manifest != nullptr),
                    first,
                    end,
                    priority,
                    RunBlocks(priority, end - first),
                    0,
                    {},
                    {}})) {
    return Error(ErrorCode::kBusy, "too much is queued to be fetched: try again later");
  }
  work_.NotifyOne();
  return {};
}

Result<void> FetcherImpl::Complete(const cache::ObjectRef& object, Priority priority,
                                   Deadline deadline) {
  return Ensure(object, 0, UINT64_MAX, priority, deadline);
}

Result<void> FetcherImpl::CompleteLater(const cache::ObjectRef& object, Priority priority) {
  if (object->size_bytes() == 0) {
    return Ensure(object, 0, 1, priority, Deadline::After(std::chrono::seconds(1)));
  }
  return EnsureLater(object, 0, UINT64_MAX, priority);
}

Result<std::vector<std::byte>> FetcherImpl::ReadAround(const cache::ObjectRef& object,
                                                       uint64_t index, Deadline deadline) {
  auto manifest = object->manifest();
  const bool small = cache::BlockCount(object->size_bytes()) == 1;
  if (manifest == nullptr && !small) {
    if (auto set = object->SetManifest(QUADFS_TRY(source_.FetchManifest(object->id(), deadline)));
        !set.ok()) {
      return std::move(set).error();
    }
    manifest = object->manifest();
  }
  std::vector<std::byte> found;
  auto fetched = source_.FetchBlocks(
      object->id(), index, 1, deadline,
      [&](uint64_t at, std::span<const std::byte> block) -> Result<void> {
        if (manifest == nullptr) {
          if (auto set = object->SetManifest(cache::Manifest::Of(block)); !set.ok()) return set;
          manifest = object->manifest();
        }
        if (at != index || manifest == nullptr || !manifest->Matches(index, block)) {
          return Error(ErrorCode::kCorruption, "a damaged block was sent");
        }
        found.assign(block.begin(), block.end());
        return {};
      });
  if (!fetched.ok()) return std::move(fetched).error();
  return found;
}

void FetcherImpl::NoteRead(const cache::ObjectRef& object, uint64_t offset, uint64_t length) {
  if (length == 0 || object->complete()) return;
  const uint64_t blocks = cache::BlockCount(object->size_bytes());
  const uint64_t first = offset / kBlockBytes, last = (offset + length - 1) / kBlockBytes;
  if (blocks <= 1 || first >= blocks) return;
  const ObjectId id = object->id();
  ReadAhead::Advice advice;
  {
    MutexLock lock(mutex_);
    if (read_aheads_.size() >= kMaxReadAheads && !read_aheads_.contains(id)) {
      read_aheads_.erase(read_aheads_.begin());  // Any: it starts anew with its next read.
    }
    auto& state = read_aheads_.try_emplace(id, blocks, options_.read_ahead_blocks).first->second;
    advice = state.Note(first, std::min(last, blocks - 1));
  }
  // A full queue means there is enough to do; the reads themselves still fetch what they need.
  if (advice.count > 0) {
    (void)EnsureLater(object, advice.first, advice.count, Priority::kReadAhead);
  }
  if (advice.complete && !CompleteLater(object, Priority::kCompletion).ok()) {
    MutexLock lock(mutex_);
    if (const auto at = read_aheads_.find(id); at != read_aheads_.end()) {
      at->second.CompletionFailed();
    }
  }
}

void FetcherImpl::Cancel(const ObjectId& object) {
  std::vector<FetchJob> gone;  // Their references go after the lock.
  MutexLock lock(mutex_);
  gone = queue_.Cancel(object);
  read_aheads_.erase(object);
}

Fetcher::Status FetcherImpl::status() const {
  MutexLock lock(mutex_);
  Status status = status_;
  status.queued_runs = queue_.size();
  return status;
}

void FetcherImpl::Stop() {
  std::vector<FetchJob> gone;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    gone = queue_.TakeAll();
    for (auto& [id, jobs] : parked_) {
      for (FetchJob& job : jobs) gone.push_back(std::move(job));
    }
    parked_.clear();
    for (auto& [id, weak] : flights_) {
      if (const auto flight = weak.lock()) flight->changed.NotifyAll();
    }
    work_.NotifyAll();
    bundle_done_.NotifyAll();
  }
  threads_.clear();
}

}  // namespace quadfs::fs
