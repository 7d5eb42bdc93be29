#include "fs/data/write_back_queue.h"

#include <algorithm>

namespace quadfs::fs {

bool WriteBackQueue::Add(uint64_t number, const ObjectId& object, uint64_t size_bytes,
                         std::vector<std::pair<uint64_t, ObjectId>>& superseded) {
  std::vector<uint64_t> older;
  if (const auto found = by_inode_.find(object.inode); found != by_inode_.end()) {
    for (const uint64_t other : found->second) {
      const Item& item = items_.at(other);
      if (item.object == object) return false;
      if (!item.active && item.object.generation < object.generation) older.push_back(other);
    }
  }
  for (const uint64_t other : older) {
    superseded.emplace_back(other, items_.at(other).object);
    Remove(other);
  }
  items_[number] = {object, size_bytes, 0, 0, {}, false};
  by_inode_[object.inode].insert(number);
  (size_bytes >= large_bytes_ ? large_ : small_).insert(number);
  queued_bytes_ += size_bytes;
  return true;
}

std::optional<uint64_t> WriteBackQueue::Take(Clock::TimePoint now, bool large_too) {
  while (!later_.empty() && later_.begin()->first <= now) {
    const uint64_t number = later_.begin()->second;
    (IsLarge(items_.at(number)) ? large_ : small_).insert(number);
    later_.erase(later_.begin());
  }
  std::set<uint64_t>* from = small_.empty() ? nullptr : &small_;
  if (large_too && !large_.empty() && (from == nullptr || *large_.begin() < *small_.begin())) {
    from = &large_;
  }
  if (from == nullptr) return std::nullopt;
  const uint64_t number = *from->begin();
  from->erase(from->begin());
  items_.at(number).active = true;
  return number;
}

std::optional<Clock::TimePoint> WriteBackQueue::NextDue() const {
  if (later_.empty()) return std::nullopt;
  return later_.begin()->first;
}

void WriteBackQueue::Later(uint64_t number, Clock::TimePoint at) {
  const auto found = items_.find(number);
  if (found == items_.end()) return;
  found->second.active = false;
  later_.emplace(at, number);
}

void WriteBackQueue::Hurry(InodeId inode) {
  const auto found = by_inode_.find(inode);
  if (found == by_inode_.end()) return;
  std::erase_if(later_, [&](const auto& row) {
    if (!found->second.contains(row.second)) return false;
    (IsLarge(items_.at(row.second)) ? large_ : small_).insert(row.second);
    return true;
  });
}

void WriteBackQueue::Remove(uint64_t number) {
  const auto found = items_.find(number);
  if (found == items_.end()) return;
  queued_bytes_ -= found->second.size_bytes;
  if (const auto at = by_inode_.find(found->second.object.inode); at != by_inode_.end()) {
    at->second.erase(number);
    if (at->second.empty()) by_inode_.erase(at);
  }
  small_.erase(number);
  large_.erase(number);
  std::erase_if(later_, [&](const auto& row) { return row.second == number; });
  items_.erase(found);
}

WriteBackQueue::Item* WriteBackQueue::Find(uint64_t number) {
  const auto found = items_.find(number);
  return found == items_.end() ? nullptr : &found->second;
}

bool WriteBackQueue::Contains(const ObjectId& object) const {
  const auto found = by_inode_.find(object.inode);
  return found != by_inode_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [&](uint64_t number) { return items_.at(number).object == object; });
}

bool WriteBackQueue::Holds(std::optional<InodeId> inode) const {
  return inode ? by_inode_.contains(*inode) : !items_.empty();
}

}  // namespace quadfs::fs
