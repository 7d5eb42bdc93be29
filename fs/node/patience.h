#pragma once

#include <chrono>
#include <thread>

#include "fs/node/fuse_compat.h"
#include "fs/node/mount_core.h"

namespace quadfs::fs {

/// How long a program's request waits for the network: to the mount's deadline, and with
/// when_cut = "wait" again and again until the link is back or a signal comes.
class Patience {
 public:
  /// `request`: none for work in the background, which never waits longer than the deadline.
  Patience(const MountCore& core, fuse_req_t request) : core_(core), request_(request) {}

  Deadline deadline() const { return core_.NewDeadline(); }

  /// Calls `attempt(deadline)` until it works or patience ends.
  template <typename Attempt>
  auto Try(Attempt&& attempt) const {
    for (;;) {
      auto result = attempt(deadline());
      if (result.ok() || !Again(result.error())) return result;
    }
  }

 private:
  bool Again(const Error& error) const {
    if (!core_.options.wait_when_cut || request_ == nullptr) return false;
    if (error.code() != ErrorCode::kUnavailable) return false;  // kTimedOut: it may have happened.
    for (int i = 0; i < 10; ++i) {
      if (fuse_req_interrupted(request_) != 0) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }
  const MountCore& core_;
  fuse_req_t request_;
};

}  // namespace quadfs::fs
