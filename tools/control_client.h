#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "transport/base/result.h"

namespace quadfs::tools {

/// Asks the daemon on `socket_path` and returns its answer; `on_progress` sees what comes before.
/// Errors: kUnavailable (it does not run or went away), and what the daemon says.
Result<nlohmann::json> AskDaemon(
    const std::string& socket_path, const nlohmann::json& request,
    const std::function<void(const nlohmann::json&)>& on_progress = {});

}  // namespace quadfs::tools
