#include "metadata/lease_table.h"

#include "metadata/proto/wire.pb.h"

namespace quadfs::metadata {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kRecallsToShare = 3;
constexpr auto kRecallWindow = seconds(10);
constexpr auto kSharedFor = seconds(60);
constexpr auto kRecallAgain = milliseconds(500);  ///< A recall that was lost is sent again.
constexpr size_t kMaxRemembered = 65536;

}  // namespace

void LeaseTable::Heard(CampusId campus) {
  MutexLock lock(mutex_);
  heard_[campus] = std::chrono::steady_clock::now();
}

milliseconds LeaseTable::Silent(CampusId campus) const {
  MutexLock lock(mutex_);
  const auto found = heard_.find(campus);
  if (found == heard_.end()) return session_ttl_ * 2;
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - found->second);
}

Result<bool> LeaseTable::AllFree(const std::vector<InodeId>& directories, CampusId but) const {
  for (const InodeId directory : directories) {
    const auto holder = QUADFS_TRY(core_.LeaseOf(directory));
    if (holder && *holder != but) return false;
  }
  return true;
}

void LeaseTable::NoteRecall(InodeId directory) {
  const auto now = std::chrono::steady_clock::now();
  if (recalls_.size() > kMaxRemembered) recalls_.clear();
  auto& times = recalls_[directory];
  times.push_back(now);
  while (now - times.front() > kRecallWindow) times.pop_front();
  if (times.size() >= kRecallsToShare) {
    if (shared_until_.size() > kMaxRemembered) shared_until_.clear();
    shared_until_[directory] = now + kSharedFor;
  }
}

Result<void> LeaseTable::Free(const std::vector<InodeId>& directories, CampusId but,
                              Deadline deadline) {
  while (true) {
    std::map<CampusId, std::vector<InodeId>> held;
    for (const InodeId directory : directories) {
      const auto holder = QUADFS_TRY(core_.LeaseOf(directory));
      if (holder && *holder != but) held[*holder].push_back(directory);
    }
    if (held.empty()) return {};
    for (const auto& [campus, list] : held) {
      if (Silent(campus) > session_ttl_) {
        std::vector<std::pair<InodeId, std::optional<CampusId>>> taken;
        for (const InodeId directory : list) taken.emplace_back(directory, std::nullopt);
        if (auto set = core_.SetLeases(taken); !set.ok()) return set;
        continue;
      }
      wire::DirectoryList recall;
      {
        MutexLock lock(mutex_);
        const auto now = std::chrono::steady_clock::now();
        for (const InodeId directory : list) {
          auto& at = recalled_at_[directory];
          if (now - at < kRecallAgain) continue;
          if (at == Clock::TimePoint()) NoteRecall(directory);
          at = now;
          recall.add_directories(directory.value);
        }
        if (recalled_at_.size() > kMaxRemembered) recalled_at_.clear();
      }
      if (recall.directories_size() > 0) {
        (void)streams_.Send(campus, NodeId(), FrameType::kRecall, recall.SerializeAsString());
      }
    }
    if (deadline.Passed()) {
      return Error(ErrorCode::kTimedOut, "another campus has not given back the directory's lease");
    }
    MutexLock lock(mutex_);
    returned_.WaitUntil(
        mutex_, std::min(deadline.at(), std::chrono::steady_clock::now() + milliseconds(100)));
  }
}

std::vector<InodeId> LeaseTable::Grantable(const std::vector<InodeId>& directories,
                                           CampusId campus) {
  std::vector<InodeId> free;
  const auto now = std::chrono::steady_clock::now();
  for (const InodeId directory : directories) {
    {
      MutexLock lock(mutex_);
      const auto shared = shared_until_.find(directory);
      if (shared != shared_until_.end() && shared->second > now) continue;
    }
    const auto holder = core_.LeaseOf(directory);
    if (holder.ok() && !holder->has_value() && campus != kMainCampus) free.push_back(directory);
  }
  return free;
}

Result<void> LeaseTable::Return(CampusId campus, const std::vector<InodeId>& directories) {
  std::vector<std::pair<InodeId, std::optional<CampusId>>> given;
  for (const InodeId directory : directories) {
    const auto holder = QUADFS_TRY(core_.LeaseOf(directory));
    if (holder && *holder == campus) given.emplace_back(directory, std::nullopt);
  }
  if (!given.empty()) {
    if (auto set = core_.SetLeases(given); !set.ok()) return set;
  }
  MutexLock lock(mutex_);
  for (const InodeId directory : directories) recalled_at_.erase(directory);
  returned_.NotifyAll();
  return {};
}

}  // namespace quadfs::metadata
