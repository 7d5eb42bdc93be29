#include "metadata/lock_table.h"

#include <algorithm>

namespace quadfs::metadata {
namespace {

constexpr int kMaxChain = 64;

bool Overlap(uint64_t first, uint64_t last, uint64_t other_first, uint64_t other_last) {
  return first <= other_last && other_first <= last;
}

}  // namespace

const LockTable::Held* LockTable::Conflict(const LockOwner& owner,
                                           const LockRequest& request) const {
  const auto found = held_.find({request.inode, request.kind});
  if (found == held_.end()) return nullptr;
  for (const Held& held : found->second) {
    if (held.owner == owner ||
        !Overlap(held.first, held.last, request.first_byte, request.last_byte))
      continue;
    if (held.type == LockType::kExclusive || request.type == LockType::kExclusive) return &held;
  }
  return nullptr;
}

void LockTable::Apply(const LockOwner& owner, const LockRequest& request) {
  auto& all = held_[{request.inode, request.kind}];
  std::vector<Held> kept;
  for (const Held& held : all) {
    if (held.owner != owner ||
        !Overlap(held.first, held.last, request.first_byte, request.last_byte)) {
      kept.push_back(held);
      continue;
    }
    // The new range replaces the old one where they overlap.
    if (held.first < request.first_byte) {
      Held left = held;
      left.last = request.first_byte - 1;
      kept.push_back(left);
    }
    if (held.last > request.last_byte) {
      Held right = held;
      right.first = request.last_byte + 1;
      kept.push_back(right);
    }
  }
  if (request.type != LockType::kUnlock) {
    kept.push_back({owner, request.type, request.first_byte, request.last_byte, request.pid});
  }
  all = std::move(kept);
  if (all.empty()) held_.erase({request.inode, request.kind});
  changed_.NotifyAll();
}

bool LockTable::WaitsFor(const LockOwner& from, const LockOwner& target, int depth) const {
  if (from == target) return true;
  if (depth == 0) return false;
  const auto found = waiting_.find(from);
  if (found == waiting_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(),
                     [&](const LockOwner& next) QUADFS_NO_THREAD_SAFETY_ANALYSIS {
                       return WaitsFor(next, target, depth - 1);
                     });
}

Result<void> LockTable::Lock(const LockOwner& owner, const LockRequest& request) {
  const auto deadline = std::chrono::steady_clock::now() + request.wait;
  MutexLock lock(mutex_);
  while (request.type != LockType::kUnlock) {
    const Held* conflict = Conflict(owner, request);
    if (conflict == nullptr) break;
    if (request.kind == LockKind::kPosix && request.wait.count() > 0 &&
        WaitsFor(conflict->owner, owner, kMaxChain)) {
      return Error(ErrorCode::kDeadlock, "two lock owners would wait for each other for ever");
    }
    if (stopping_ || std::chrono::steady_clock::now() >= deadline) {
      return Error(ErrorCode::kWouldBlock, "the lock is held by somebody else");
    }
    waiting_[owner] = {conflict->owner};
    changed_.WaitUntil(mutex_, deadline);
    waiting_.erase(owner);
  }
  Apply(owner, request);
  return {};
}

std::optional<LockHolder> LockTable::Test(const LockOwner& owner,
                                          const LockRequest& request) const {
  MutexLock lock(mutex_);
  const Held* conflict = Conflict(owner, request);
  if (conflict == nullptr) return std::nullopt;
  return LockHolder{conflict->type, conflict->first, conflict->last, conflict->pid};
}

template <typename Match>
void LockTable::Drop(const Match& match) {
  MutexLock lock(mutex_);
  for (auto it = held_.begin(); it != held_.end();) {
    std::erase_if(it->second, [&](const Held& held) { return match(it->first.first, held.owner); });
    it = it->second.empty() ? held_.erase(it) : std::next(it);
  }
  changed_.NotifyAll();
}

void LockTable::Release(InodeId inode, const LockOwner& owner) {
  Drop([&](InodeId of, const LockOwner& held) { return of == inode && held == owner; });
}
void LockTable::ReleaseNode(CampusId campus, NodeId node) {
  Drop([&](InodeId, const LockOwner& held) { return held.campus == campus && held.node == node; });
}
void LockTable::ReleaseCampus(CampusId campus) {
  Drop([&](InodeId, const LockOwner& held) { return held.campus == campus; });
}

std::set<std::pair<CampusId, NodeId>> LockTable::Holders() const {
  std::set<std::pair<CampusId, NodeId>> holders;
  MutexLock lock(mutex_);
  for (const auto& [key, list] : held_) {
    for (const Held& held : list) holders.emplace(held.owner.campus, held.owner.node);
  }
  return holders;
}

void LockTable::Stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  changed_.NotifyAll();
}

}  // namespace quadfs::metadata
