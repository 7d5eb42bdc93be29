#include "metadata/change_queue.h"

#include "metadata/format.h"
#include "metadata/tree_rows.h"

namespace quadfs::metadata {

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

void ChangeQueue::Post(std::function<void(ChangeListener&)> event) {
  MutexLock lock(mutex_);
  if (stopping_) return;
  events_.push_back(std::move(event));
  changed_.NotifyOne();
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
    std::function<void(ChangeListener&)> event;
    {
      MutexLock lock(mutex_);
      while (events_.empty() && !stopping_) changed_.Wait(mutex_);
      if (stopping_) return;
      event = std::move(events_.front());
      events_.pop_front();
    }
    event(listener_);
  }
}

}  // namespace quadfs::metadata
