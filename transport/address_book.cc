#include "transport/address_book.h"

#include <algorithm>

namespace quadfs::transport {

AddressBook::AddressBook(std::vector<std::string> addresses) {
  for (std::string& address : addresses) entries_.push_back({.address = std::move(address)});
}

std::vector<size_t> AddressBook::Order(size_t connected, TimePoint now) const {
  MutexLock lock(mutex_);
  std::vector<size_t> order;
  const auto add = [&order](size_t index) {
    if (std::find(order.begin(), order.end(), index) == order.end()) order.push_back(index);
  };
  if (connected != kNone) add(connected);
  if (entries_[preferred_].not_before <= now) add(preferred_);
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].not_before <= now) add(i);
  }
  return order;
}

void AddressBook::Worked(size_t index) {
  MutexLock lock(mutex_);
  preferred_ = index;
  entries_[index].not_before = {};
  entries_[index].back_off = {};
}

void AddressBook::Failed(size_t index, const std::string& why, TimePoint now) {
  MutexLock lock(mutex_);
  Entry& entry = entries_[index];
  entry.why = why;
  // Callers that failed together count as one failure.
  if (entry.not_before > now) return;
  entry.back_off = std::clamp(entry.back_off * 2, kFirstBackOff, kMaxBackOff);
  entry.not_before = now + entry.back_off;
}

void AddressBook::Reset() {
  MutexLock lock(mutex_);
  preferred_ = 0;
  for (Entry& entry : entries_) {
    entry.not_before = {};
    entry.back_off = {};
  }
}

std::string AddressBook::Failures() const {
  MutexLock lock(mutex_);
  std::string text;
  for (const Entry& entry : entries_) {
    text += (text.empty() ? "" : "; ") + entry.address + ": " + entry.why;
  }
  return text;
}

}  // namespace quadfs::transport
