#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "transport/base/result.h"

namespace quadfs::daemon {

/// Structured lines: `2026-01-02T03:04:05.678Z info event key=value key="value with spaces"`, or
/// without the time under the journal, which has its own. Threads: all may be called concurrently.
enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError };
using LogFields = std::initializer_list<std::pair<std::string_view, std::string>>;

/// `file`: empty for standard error. Errors: kIo, kAccess (the file cannot be written).
Result<void> OpenLog(const std::string& level, const std::string& file);
void SetLogLevel(const std::string& level);

void Log(LogLevel level, std::string_view event, LogFields fields = {});
inline void LogInfo(std::string_view event, LogFields fields = {}) {
  Log(LogLevel::kInfo, event, fields);
}
inline void LogWarn(std::string_view event, LogFields fields = {}) {
  Log(LogLevel::kWarn, event, fields);
}
inline void LogError(std::string_view event, LogFields fields = {}) {
  Log(LogLevel::kError, event, fields);
}

}  // namespace quadfs::daemon
