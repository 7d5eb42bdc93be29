#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "metadata/hub_core.h"
#include "metadata/stream_registry.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace quadfs::metadata {

/// Main's side of leases: which campus may change which directory, and getting it back.
///
/// A lease of a campus that answers is recalled: it ships what is pending and returns it. A lease
/// of a campus that was silent for the session's time is taken. A directory recalled three times in
/// 10 s is shared for 60 s: everything in it is executed at main.
/// Threads: every method may be called concurrently; Free blocks.
class LeaseTable {
 public:
  LeaseTable(HubCore& core, StreamRegistry& streams, std::chrono::milliseconds session_ttl)
      : core_(core), streams_(streams), session_ttl_(session_ttl) {}

  /// A request of that campus's hub came in.
  void Heard(CampusId campus);
  std::chrono::milliseconds Silent(CampusId campus) const;

  /// Campuses other than `but` that hold any of these: the first such directory.
  Result<bool> AllFree(const std::vector<InodeId>& directories, CampusId but) const;
  /// Returns when no campus but `but` holds any of them. Errors: kTimedOut.
  Result<void> Free(const std::vector<InodeId>& directories, CampusId but, Deadline deadline);
  /// Directories of these that may be leased to a campus now: free and not shared.
  std::vector<InodeId> Grantable(const std::vector<InodeId>& directories, CampusId campus);
  /// The holder gave them back.
  Result<void> Return(CampusId campus, const std::vector<InodeId>& directories);

 private:
  void NoteRecall(InodeId directory) QUADFS_REQUIRES(mutex_);

  HubCore& core_;
  StreamRegistry& streams_;
  const std::chrono::milliseconds session_ttl_;
  mutable Mutex mutex_;
  CondVar returned_;
  std::map<CampusId, Clock::TimePoint> heard_ QUADFS_GUARDED_BY(mutex_);
  std::map<InodeId, std::deque<Clock::TimePoint>> recalls_ QUADFS_GUARDED_BY(mutex_);
  std::map<InodeId, Clock::TimePoint> shared_until_ QUADFS_GUARDED_BY(mutex_);
  std::map<InodeId, Clock::TimePoint> recalled_at_ QUADFS_GUARDED_BY(mutex_);
};

}  // namespace quadfs::metadata
