// Whole small objects in one request: FetcherImpl's CompleteBundle.
#include <algorithm>
#include <unordered_map>

#include "fs/data/fetcher_impl.h"

namespace quadfs::fs {

Result<void> FetcherImpl::CompleteBundle(const std::vector<cache::ObjectRef>& objects,
                                         Priority priority, Deadline deadline) {
  std::vector<cache::ObjectRef> small, others;
  for (const auto& object : objects) {
    if (object->complete()) continue;
    (cache::BlockCount(object->size_bytes()) == 1 && !object->dirty() ? small : others)
        .push_back(object);
  }
  const auto left = std::make_shared<uint64_t>(0);
  {
    MutexLock lock(mutex_);
    if (stopping_) return Error(ErrorCode::kCancelled, "the daemon stops");
    FetchJob job{nullptr, 0, 0, priority, 1, 0, {}, left};
    const auto push = [&]() QUADFS_REQUIRES(mutex_) {
      if (job.bundle.empty()) return;
      FetchJob next = std::exchange(job, {nullptr, 0, 0, priority, 1, 0, {}, left});
      const auto flights = next.bundle;
      if (queue_.Push(std::move(next))) {
        ++*left;
        return;
      }
      for (const auto& flight : flights) flight->in_flight.erase(0);
    };
    for (const auto& object : small) {
      auto flight = FlightOf(object, 1, false);
      if (!flight->in_flight.insert(0).second) {
        others.push_back(object);  // Somebody brings it already.
        continue;
      }
      job.bundle.push_back(std::move(flight));
      if (job.bundle.size() == kBundleObjects) push();
    }
    push();
    work_.NotifyAll();
    while (*left > 0 && !stopping_) {
      if (!bundle_done_.WaitUntil(mutex_, deadline.at())) break;
    }
    if (stopping_) return Error(ErrorCode::kCancelled, "the daemon stops");
    if (*left > 0) return Error(ErrorCode::kTimedOut, "the small files did not all arrive in time");
  }
  for (const auto& object : others) {
    if (deadline.Passed()) break;
    (void)Complete(object, priority, deadline);  // What fails is not complete: the caller sees.
  }
  return {};
}

void FetcherImpl::ExecuteBundle(const FetchJob& job) {
  std::unordered_map<ObjectId, FlightRef> open;
  std::vector<ObjectId> wanted;
  for (const auto& flight : job.bundle) {
    if (flight->object->complete()) {
      Arrived(*flight, 0, 0);
      continue;
    }
    open.emplace(flight->id, flight);
    wanted.push_back(flight->id);
  }
  std::optional<Error> failed;
  if (!wanted.empty()) {
    auto fetched = source_.FetchBundle(
        wanted, Deadline::After(options_.background_deadline),
        [&](const ObjectId& id, Result<std::vector<std::byte>> content) -> Result<void> {
          const auto at = open.find(id);
          if (at == open.end() || !content.ok()) return {};
          auto& object = *at->second->object;
          auto stored = object.manifest() ? Result<void>()
                                          : object.SetManifest(cache::Manifest::Of(*content));
          if (stored.ok()) stored = object.StoreBlock(0, *content);
          if (!stored.ok()) {
            MutexLock lock(mutex_);
            if (stored.error().code() == ErrorCode::kCorruption) ++status_.corrupt_blocks;
            status_.problem = stored.error().ToString();
            return {};
          }
          Arrived(*at->second, 0, content->size());
          open.erase(at);
          return {};
        });
    if (!fetched.ok()) failed = std::move(fetched).error();
  }
  MutexLock lock(mutex_);
  const Error missing = failed.value_or(Error(ErrorCode::kUnavailable, "not in the bundle"));
  if (failed) {
    ++status_.failed_runs;
    status_.problem = failed->ToString();
  }
  for (const auto& [id, flight] : open) {
    flight->in_flight.erase(0);
    ++flight->version;
    // Who waits for it in Ensure fetches it singly now.
    if (!flight->waiters.empty()) {
      queue_.PushFront({flight, 0, 1, Priority::kReader, 1, 0, {}, {}});
      flight->last_error = missing;
    }
    flight->changed.NotifyAll();
  }
  if (*job.bundles_left > 0) --*job.bundles_left;
  bundle_done_.NotifyAll();
}

}  // namespace quadfs::fs
