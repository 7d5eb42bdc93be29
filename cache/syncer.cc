#include "cache/syncer.h"

#include "cache/cached_object.h"

namespace quadfs::cache {

Syncer::Syncer(std::chrono::milliseconds interval, uint64_t batch_blocks,
               std::function<bool()> sync_all, std::function<void()> tick)
    : interval_(interval),
      batch_blocks_(batch_blocks),
      sync_all_(std::move(sync_all)),
      tick_(std::move(tick)),
      next_tick_(std::chrono::steady_clock::now() + kTickInterval),
      thread_([this] { Run(); }) {}

void Syncer::Stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  work_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void Syncer::Enqueue(std::shared_ptr<CachedObject> object, uint64_t blocks) {
  MutexLock lock(mutex_);
  while (queue_.size() >= kMostObjects && std::this_thread::get_id() != thread_.get_id()) {
    done_.Wait(mutex_);
  }
  queue_.push_back(std::move(object));
  ++enqueued_;
  queued_blocks_ += blocks;
  if (queue_.size() >= kUrgentObjects || queued_blocks_ >= batch_blocks_) urgent_ = true;
  if (queue_.size() == 1 || urgent_) work_.NotifyOne();
}

void Syncer::Flush() {
  MutexLock lock(mutex_);
  const uint64_t target = enqueued_;
  while (finished_ < target) {
    urgent_ = true;
    work_.NotifyOne();
    done_.Wait(mutex_);
  }
}

// Until a batch is due (true) or the once-a-second work is (false).
bool Syncer::WaitForWork() {
  MutexLock lock(mutex_);
  while (queue_.empty() && !stop_) {
    if (!work_.WaitUntil(mutex_, next_tick_) && std::chrono::steady_clock::now() >= next_tick_) {
      return false;
    }
  }
  const auto due = std::chrono::steady_clock::now() + interval_;
  while (!urgent_ && !stop_ && std::chrono::steady_clock::now() < due) work_.WaitUntil(mutex_, due);
  return true;
}

void Syncer::Persist(std::vector<std::shared_ptr<CachedObject>>& batch) const {
  // All writes start before the first wait, so that one journal commit serves several files.
  for (const auto& object : batch) object->BeginPersist();
  const bool synced = batch.size() >= kManyObjects && sync_all_();
  for (auto& object : batch) {
    object->FinishPersist(synced);
    object.reset();
  }
}

void Syncer::Run() {
  for (;;) {
    const bool batch_due = WaitForWork();
    std::vector<std::shared_ptr<CachedObject>> batch;
    uint64_t last = 0;
    bool stop = false;
    if (batch_due) {
      MutexLock lock(mutex_);
      batch.swap(queue_);
      last = enqueued_;
      queued_blocks_ = 0;
      urgent_ = false;
      stop = stop_;
    }
    Persist(batch);
    if (batch_due) {
      MutexLock lock(mutex_);
      finished_ = last;
      stop = stop && queue_.empty();
    }
    done_.NotifyAll();
    if (stop) return;
    if (std::chrono::steady_clock::now() >= next_tick_) {
      tick_();
      next_tick_ = std::chrono::steady_clock::now() + kTickInterval;
    }
  }
}

}  // namespace quadfs::cache
