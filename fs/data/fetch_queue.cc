#include "fs/data/fetch_queue.h"

#include <algorithm>

namespace quadfs::fs {

bool FetchQueue::Push(FetchJob job) {
  if (job.priority != Priority::kReader && size() >= limit_) return false;
  jobs_[static_cast<size_t>(job.priority)].push_back(std::move(job));
  return true;
}

void FetchQueue::PushFront(FetchJob job) {
  jobs_[static_cast<size_t>(job.priority)].push_front(std::move(job));
}

void FetchQueue::PushLater(FetchJob job, Clock::TimePoint at) {
  later_.emplace(at, std::move(job));
}

std::optional<Clock::TimePoint> FetchQueue::Wake(Clock::TimePoint now) {
  while (!later_.empty() && later_.begin()->first <= now) {
    PushFront(std::move(later_.begin()->second));
    later_.erase(later_.begin());
  }
  if (later_.empty()) return std::nullopt;
  return later_.begin()->first;
}

std::optional<FetchJob> FetchQueue::Pop(Priority lowest) {
  for (size_t i = 0; i <= static_cast<size_t>(lowest); ++i) {
    if (jobs_[i].empty()) continue;
    FetchJob job = std::move(jobs_[i].front());
    jobs_[i].pop_front();
    return job;
  }
  return std::nullopt;
}

std::vector<FetchJob> FetchQueue::Cancel(const ObjectId& object) {
  std::vector<FetchJob> gone;
  const auto unwanted = [&](const FetchJob& job) {
    if (!job.flight || job.flight->id != object) return false;
    if (job.priority != Priority::kReadAhead && job.priority != Priority::kCompletion) return false;
    return std::none_of(job.flight->waiters.begin(), job.flight->waiters.end(),
                        [&](const FetchWaiter* waiter) {
                          return waiter->next < job.end && waiter->end > job.next;
                        });
  };
  for (auto& list : jobs_) {
    for (auto at = list.begin(); at != list.end();) {
      if (!unwanted(*at)) {
        ++at;
        continue;
      }
      gone.push_back(std::move(*at));
      at = list.erase(at);
    }
  }
  for (auto at = later_.begin(); at != later_.end();) {
    if (!unwanted(at->second)) {
      ++at;
      continue;
    }
    gone.push_back(std::move(at->second));
    at = later_.erase(at);
  }
  return gone;
}

std::vector<FetchJob> FetchQueue::TakeAll() {
  std::vector<FetchJob> all;
  for (auto& list : jobs_) {
    for (FetchJob& job : list) all.push_back(std::move(job));
    list.clear();
  }
  for (auto& [at, job] : later_) all.push_back(std::move(job));
  later_.clear();
  return all;
}

size_t FetchQueue::size() const {
  size_t count = later_.size();
  for (const auto& list : jobs_) count += list.size();
  return count;
}

FetchRun FetchQueue::Carve(FetchJob& job) {
  FetchRun run{job.flight, 0, 0, job.priority, job.attempts, job.run_blocks, false};
  auto& in_flight = job.flight->in_flight;
  while (job.next < job.end && in_flight.contains(job.next)) ++job.next;
  run.first = job.next;
  while (job.next < job.end && job.next - run.first < job.run_blocks &&
         in_flight.insert(job.next).second) {
    ++job.next;
  }
  run.end = job.next;
  return run;
}

}  // namespace quadfs::fs
