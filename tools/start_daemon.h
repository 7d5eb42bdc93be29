#pragma once

#include <chrono>
#include <string>

#include "fs/daemon/config.h"
#include "transport/base/result.h"

namespace quadfs::tools {

/// Starts quadfsd detached and returns when it says that it is ready (NOTIFY_SOCKET), so that the
/// tree is mounted then. Its log goes to /var/log/quadfs/quadfsd.log, or into the state directory
/// if that is not the usual one. Errors: kNotFound (no quadfsd beside this program or in PATH),
/// kTimedOut (it goes on starting), kUnknown (it ended; the last line of its log).
Result<void> StartDaemon(const daemon::Config& config, const std::string& mount_options,
                         std::chrono::milliseconds timeout);

/// Mounts the tree of `config`: asks a running daemon, else starts one.
/// Errors: those of StartDaemon, kExists (it is mounted already), and the daemon's.
Result<void> MountTree(const daemon::Config& config, const std::string& mount_options,
                       std::chrono::milliseconds timeout);

}  // namespace quadfs::tools
