#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/commands.h"
#include "transport/base/result.h"

namespace quadfs::tools {

/// One line on standard error (and with --json one on standard output); returns the exit status.
int Report(const Common& common, const char* command, const Error& error);
/// One wrong use: exit status 2.
int ReportUsage(const char* command, const std::string& message);
/// With --json one line of JSON; else `text`, if not empty.
int Finish(const Common& common, const nlohmann::json& answer, const std::string& text);

int ExitStatusOf(ErrorCode code);

/// Where the daemon's control socket is. Errors: those of LoadConfig.
Result<std::string> SocketPath(const Common& common);

}  // namespace quadfs::tools
