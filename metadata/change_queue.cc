#include "metadata/change_queue.h"

#include "metadata/format.h"
#include "metadata/tree_rows.h"

namespace quadfs::metadata {
namespace {

constexpr auto kLinger = std::chrono::milliseconds(1);

}  // namespace

Result<Change> DescribeChange(const RowReader& before, const std::vector<RowChange>& rows) {
  Change change;
  for (const RowChange& row : rows) {
    const auto family = FamilyOf(row.key);
    if (!family) continue;
    if (*family == Family::kDentry) {
      if (const auto key = ParseDentryKey(row.key)) {
        change.dentries.emplace_back(key->parent, std::string(key->name));
      }
    } else if (*family == Family::kXattr) {
      if (const auto key = ParseXattrKey(row.key)) change.xattrs.push_back(key->inode);
    } else if (*family == Family::kLocation) {
      if (const auto number = ParseNumberKey(row.key)) change.locations.emplace_back(*number);
    } else if (*family == Family::kInode) {
      const auto number = ParseNumberKey(row.key);
      if (!number) continue;
      const InodeId inode(*number);
      change.attributes.push_back(inode);
      const auto old = QUADFS_TRY(FindInode(before, inode));
      if (!row.value) {
        change.removed.push_back(inode);
        continue;
      }
      const Attributes now = QUADFS_TRY(DecodeInode(inode, *row.value));
      if (old && old->generation != now.generation) change.contents.push_back(inode);
    }
  }
  return change;
}

ChangeQueue::ChangeQueue(ChangeListener& listener)
    : listener_(listener), thread_([this] { Run(); }) {}

void ChangeQueue::Add(Event event, bool urgent) {
  MutexLock lock(mutex_);
  if (stopping_) return;
  events_.push_back(std::move(event));
  if (idle_ || (urgent && !urgent_)) changed_.NotifyOne();
  idle_ = false;
  urgent_ = urgent_ || urgent;
}

void ChangeQueue::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) thread_.join();
}

void ChangeQueue::Run() {
  while (true) {
    std::deque<Event> events;
    {
      MutexLock lock(mutex_);
      if (events_.empty() && !stopping_) {
        idle_ = true;
        while (events_.empty() && !stopping_) changed_.Wait(mutex_);
        const auto until = std::chrono::steady_clock::now() + kLinger;
        while (!urgent_ && !stopping_ && changed_.WaitUntil(mutex_, until)) {
        }
      }
      if (stopping_) return;
      events.swap(events_);
      urgent_ = false;
    }
    for (const Event& event : events) {
      event(listener_);
      MutexLock lock(mutex_);
      if (stopping_) return;
    }
  }
}

}  // namespace quadfs::metadata
