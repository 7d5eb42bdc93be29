#pragma once

#include <string>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace quadfs::daemon {

/// Makes a directory (0700) and those above it (0755), unless it is there. Errors: kIo, kAccess, …
Result<void> MakePrivateFolder(const std::string& path);
/// The same with mode 0755.
Result<void> MakeFolder(const std::string& path);

/// Holds `path` for this process; two of them cannot. Writes the pid into it.
/// Errors: kBusy, naming the pid of the holder.
Result<UniqueFd> LockFile(const std::string& path);

}  // namespace quadfs::daemon
