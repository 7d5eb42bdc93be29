#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fs/daemon/control_call.h"
#include "fs/daemon/daemon.h"
#include "metadata/view.h"

namespace quadfs::daemon {

/// A path of a request, found with the asker's own rights.
struct Target {
  std::string shown;  ///< As asked.
  metadata::Attributes attributes;
};

/// Errors: kUnavailable (this machine has no node role, or it is still starting).
Result<std::shared_ptr<NodeRole>> NeedNode(const Daemon& daemon);

/// Finds all paths of the request; each must be below the mount. Errors: kInvalidArgument (none
/// given, not below the mount), kNotFound, kAccess.
Result<std::vector<Target>> FindTargets(const Daemon& daemon, const ControlCall& call);

/// Calls `visit` for each regular file at or below `target`, a directory's entries in name order,
/// with the asker's rights: directories that it may not read are skipped and counted.
/// Ends when `visit` returns false. Errors: those of View, kCancelled.
struct WalkResult {
  uint64_t files = 0, skipped_directories = 0;
};
Result<WalkResult> WalkFiles(const metadata::View& view, const metadata::Attributes& target,
                             const ControlCall& call,
                             const std::function<bool(const metadata::Attributes&)>& visit);

/// Every file of all targets, once each, as a list of at most `kMaxListedFiles`.
/// Errors: kTooLarge, beyond it.
inline constexpr size_t kMaxListedFiles = 4'000'000;
Result<std::vector<metadata::Attributes>> ListFiles(const metadata::View& view,
                                                    const std::vector<Target>& targets,
                                                    const ControlCall& call);

}  // namespace quadfs::daemon
