#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/commands.h"
#include "transport/base/result.h"

namespace quadfs::tools {

/// Asks the daemon to do `verb` for the paths, with a progress bar. `extra`: further fields.
/// Paths are made absolute; links on the way are followed with the caller's own rights.
/// Errors: those of AskDaemon, kInvalidArgument (the timeout).
Result<nlohmann::json> AskAboutPaths(const Common& common, const char* verb,
                                     const PathsOptions& options, nlohmann::json extra = {});

}  // namespace quadfs::tools
