#include "metadata/delegations.h"

#include <algorithm>

namespace quadfs::metadata {

bool Delegations::Cover(const std::vector<InodeId>& directories) const {
  MutexLock lock(mutex_);
  if (!link_ || held_.empty() || directories.empty()) return false;
  if (std::chrono::steady_clock::now() - heard_ > trust_) return false;
  return std::all_of(directories.begin(), directories.end(),
                     [&](InodeId directory) QUADFS_NO_THREAD_SAFETY_ANALYSIS {
                       return held_.contains(directory) && !paused_.contains(directory);
                     });
}

uint64_t Delegations::turn() const {
  MutexLock lock(mutex_);
  return turn_;
}

void Delegations::Take(const std::vector<Delegation>& given, std::chrono::milliseconds trust,
                       uint64_t turn) {
  MutexLock lock(mutex_);
  if (turn != turn_ || !link_ || giving_up_) return;
  trust_ = trust;
  for (const Delegation& delegation : given) {
    if (held_.insert_or_assign(delegation.directory, delegation.number).second) {
      order_.push_back(delegation.directory);
    }
  }
}

void Delegations::Made(InodeId directory) {
  MutexLock lock(mutex_);
  if (held_.emplace(directory, 0).second) order_.push_back(directory);
}

void Delegations::Recall(const std::vector<Delegation>& demanded) {
  MutexLock lock(mutex_);
  ++turn_;
  for (const Delegation& delegation : demanded) held_.erase(delegation.directory);
}

std::vector<Delegation> Delegations::TakeExcess() {
  std::vector<Delegation> excess;
  MutexLock lock(mutex_);
  if (order_.size() <= kMax) return excess;
  while (order_.size() > kMax / 2) {
    const auto found = held_.find(order_.front());
    if (found != held_.end()) {
      excess.push_back({found->first, found->second});
      held_.erase(found);
    }
    order_.pop_front();
  }
  return excess;
}

void Delegations::GiveUpAll() {
  MutexLock lock(mutex_);
  ++turn_;
  giving_up_ = true;
  held_.clear();
  order_.clear();
}

void Delegations::GivenUp() {
  MutexLock lock(mutex_);
  ++turn_;
  giving_up_ = false;
}

void Delegations::Heard(Clock::TimePoint sent) {
  MutexLock lock(mutex_);
  heard_ = std::max(heard_, sent);
}

bool Delegations::SetLink(bool up) {
  MutexLock lock(mutex_);
  const bool lost = link_ && !up;
  link_ = up;
  return lost;
}

size_t Delegations::size() const {
  MutexLock lock(mutex_);
  return held_.size();
}

void Delegations::Pause::Add(const std::vector<InodeId>& directories) {
  MutexLock lock(delegations_.mutex_);
  for (const InodeId directory : directories) {
    directories_.push_back(directory);
    ++delegations_.paused_[directory];
  }
}

Delegations::Pause::~Pause() {
  MutexLock lock(delegations_.mutex_);
  for (const InodeId directory : directories_) {
    const auto found = delegations_.paused_.find(directory);
    if (--found->second == 0) delegations_.paused_.erase(found);
  }
}

}  // namespace quadfs::metadata
