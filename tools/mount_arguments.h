#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "fs/daemon/config.h"
#include "transport/base/result.h"

namespace quadfs::tools {

/// What mount(8) asks its helper for: mount.quadfs SOURCE TARGET [-sfnv] [-N NS] [-t TYPE] [-o
/// OPTIONS].
struct MountArguments {
  std::string target;
  std::string config = daemon::kDefaultConfigPath;
  std::string options;  ///< What is for the kernel: "ro,nosuid".
  std::chrono::milliseconds timeout{60000};
  bool fake = false;
};

/// Takes out what is for us (config=, timeout=) and for mount(8) itself (_netdev, nofail, x-…).
/// Errors: kInvalidArgument.
Result<MountArguments> ParseMountArguments(const std::vector<std::string>& words);

}  // namespace quadfs::tools
