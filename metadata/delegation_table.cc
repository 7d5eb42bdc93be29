#include "metadata/delegation_table.h"

#include <algorithm>

#include "metadata/proto/wire.pb.h"

namespace quadfs::metadata {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kRestAfterRecall = seconds(10);
constexpr auto kRecallAgain = milliseconds(500);  ///< A recall that was lost is sent again.
constexpr size_t kMaxRemembered = 65536;

Clock::TimePoint Now() { return std::chrono::steady_clock::now(); }

}  // namespace

DelegationTable::DelegationTable(Options options, StreamRegistry& streams,
                                 const std::set<NodeId>& holders_before, RememberHolder remember)
    : options_(options),
      streams_(streams),
      remember_(std::move(remember)),
      started_(Now()),
      awaited_(holders_before),
      remembered_(holders_before) {}

void DelegationTable::Heard(NodeId node) {
  MutexLock lock(mutex_);
  heard_[node] = Now();
}

milliseconds DelegationTable::Silent(NodeId node) const {
  const auto found = heard_.find(node);
  const auto since = found == heard_.end() ? started_ : found->second;
  return std::chrono::duration_cast<milliseconds>(Now() - since);
}

std::vector<NodeId> DelegationTable::AwaitedBut(NodeId but) const {
  std::vector<NodeId> waiting;
  if (Now() - started_ > options_.session_ttl) return waiting;
  for (const NodeId node : awaited_) {
    if (node != but) waiting.push_back(node);
  }
  return waiting;
}

std::vector<Delegation> DelegationTable::Give(const std::vector<InodeId>& directories,
                                              NodeId node) {
  std::vector<Delegation> given;
  MutexLock lock(mutex_);
  if (stopping_ || awaited_.contains(node) || !AwaitedBut(node).empty()) return given;
  if (!remembered_.contains(node)) {
    if (!remember_(node, true).ok()) return given;
    remembered_.insert(node);
  }
  for (const InodeId directory : directories) {
    // Everybody works in the root.
    if (directory == kRootInode) continue;
    const auto has = held_.find(directory);
    // To a node that has it it is given again: the first answer may not have arrived.
    if (has != held_.end() &&
        (has->second.node != node || has->second.recalled_at != Clock::TimePoint())) {
      continue;
    }
    const auto rests = not_before_.find(directory);
    if (rests != not_before_.end()) {
      if (rests->second > Now()) continue;
      not_before_.erase(rests);
    }
    held_[directory] = {node, next_number_, {}};
    given.push_back({directory, next_number_++});
  }
  return given;
}

void DelegationTable::NoteMade(InodeId directory, NodeId node) {
  MutexLock lock(mutex_);
  held_[directory] = {node, 0, {}};
}

void DelegationTable::Return(NodeId node, const std::vector<Delegation>& delegations) {
  MutexLock lock(mutex_);
  for (const Delegation& delegation : delegations) {
    const auto found = held_.find(delegation.directory);
    if (found == held_.end() || found->second.node != node) continue;
    if (found->second.number > delegation.number) continue;  // Given again meanwhile.
    if (found->second.recalled_at != Clock::TimePoint()) {
      if (not_before_.size() > kMaxRemembered) not_before_.clear();
      not_before_[delegation.directory] = Now() + kRestAfterRecall;
    }
    held_.erase(found);
  }
  changed_.NotifyAll();
}

void DelegationTable::Drop(NodeId node) {
  std::erase_if(held_, [node](const auto& item) { return item.second.node == node; });
  awaited_.erase(node);
  changed_.NotifyAll();
}

void DelegationTable::ReturnAll(NodeId node) {
  MutexLock lock(mutex_);
  Drop(node);
}

bool DelegationTable::HeldByOther(const std::vector<InodeId>& directories, NodeId but) const {
  if (directories.empty()) return false;
  MutexLock lock(mutex_);
  if (!AwaitedBut(but).empty()) return true;
  return std::any_of(directories.begin(), directories.end(),
                     [&](InodeId directory) QUADFS_NO_THREAD_SAFETY_ANALYSIS {
                       const auto found = held_.find(directory);
                       return found != held_.end() && found->second.node != but;
                     });
}

Result<void> DelegationTable::Free(const std::vector<InodeId>& directories, NodeId but,
                                   Deadline deadline) {
  if (directories.empty()) return {};
  MutexLock lock(mutex_);
  while (!stopping_) {
    bool waiting = !AwaitedBut(but).empty();
    std::map<NodeId, wire::DelegationList> recalls;
    std::set<NodeId> lost;
    for (const InodeId directory : directories) {
      const auto found = held_.find(directory);
      if (found == held_.end() || found->second.node == but) continue;
      Held& held = found->second;
      if (Silent(held.node) > options_.session_ttl) {
        lost.insert(held.node);
        continue;
      }
      waiting = true;
      if (Now() - held.recalled_at < kRecallAgain) continue;
      held.recalled_at = Now();
      wire::Delegation& recall = *recalls[held.node].add_delegations();
      recall.set_directory(directory.value);
      recall.set_number(held.number);
    }
    for (const NodeId node : lost) Drop(node);
    if (!waiting) return {};
    if (!recalls.empty()) {
      mutex_.unlock();
      for (const auto& [node, list] : recalls) {
        (void)streams_.Send(options_.campus, node, FrameType::kRecallDelegations,
                            list.SerializeAsString());
      }
      mutex_.lock();
    }
    if (deadline.Passed()) {
      return Error(ErrorCode::kTimedOut, "another node has not given the directory back");
    }
    changed_.WaitUntil(mutex_, std::min(deadline.at(), Now() + milliseconds(100)));
  }
  return Error(ErrorCode::kCancelled, "the hub is stopping");
}

Result<void> DelegationTable::Flush(const std::vector<InodeId>& directories, NodeId but,
                                    Deadline deadline) {
  std::map<NodeId, uint64_t> awaited;
  {
    MutexLock lock(mutex_);
    for (const InodeId directory : directories) {
      const auto found = held_.find(directory);
      if (found == held_.end() || found->second.node == but) continue;
      if (Silent(found->second.node) > options_.session_ttl) continue;
      awaited.emplace(found->second.node, next_number_++);
    }
  }
  for (const auto& [node, number] : awaited) {
    wire::FlushDemand demand;
    demand.set_number(number);
    (void)streams_.Send(options_.campus, node, FrameType::kFlushDemand, demand.SerializeAsString());
  }
  MutexLock lock(mutex_);
  for (const auto& [node, number] : awaited) {
    while (flushed_[node] < number && !stopping_) {
      // A node that came back since has sent everything before it said so.
      if (std::none_of(held_.begin(), held_.end(),
                       [holder = node](const auto& item) { return item.second.node == holder; })) {
        break;
      }
      if (Silent(node) > options_.session_ttl) break;
      if (deadline.Passed()) {
        return Error(ErrorCode::kTimedOut, "a node has not told what it did");
      }
      changed_.WaitUntil(mutex_, std::min(deadline.at(), Now() + milliseconds(100)));
    }
  }
  return {};
}

void DelegationTable::Flushed(NodeId node, uint64_t number) {
  MutexLock lock(mutex_);
  uint64_t& latest = flushed_[node];
  latest = std::max(latest, number);
  changed_.NotifyAll();
}

size_t DelegationTable::size() const {
  MutexLock lock(mutex_);
  return held_.size();
}

void DelegationTable::Tend() {
  MutexLock lock(mutex_);
  if (awaited_.empty() || Now() - started_ <= options_.session_ttl) return;
  for (const NodeId node : awaited_) {
    if (remember_(node, false).ok()) remembered_.erase(node);
  }
  awaited_.clear();
}

void DelegationTable::Stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  changed_.NotifyAll();
}

}  // namespace quadfs::metadata
