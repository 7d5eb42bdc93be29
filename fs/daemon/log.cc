#include "fs/daemon/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

namespace quadfs::daemon {
namespace {

spdlog::level::level_enum LevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace: return spdlog::level::trace;
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarn: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

void AppendValue(std::string& line, std::string_view value) {
  if (!value.empty() && value.find_first_of(" \"=\\\n\t") == value.npos) {
    line += value;
    return;
  }
  line += '"';
  for (const char c : value) {
    if (c == '\n') {
      line += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') line += '\\';
    line += c;
  }
  line += '"';
}

}  // namespace

Result<void> OpenLog(const std::string& level, const std::string& file) {
  try {
    std::shared_ptr<spdlog::logger> logger;
    if (file.empty()) {
      logger = std::make_shared<spdlog::logger>("quadfsd",
                                                std::make_shared<spdlog::sinks::stderr_sink_mt>());
    } else {
      logger = std::make_shared<spdlog::logger>(
          "quadfsd", std::make_shared<spdlog::sinks::basic_file_sink_mt>(file));
    }
    const bool journal = file.empty() && std::getenv("JOURNAL_STREAM") != nullptr;
    logger->set_pattern(journal ? "%l %v" : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                        spdlog::pattern_time_type::utc);
    logger->flush_on(spdlog::level::info);
    spdlog::set_default_logger(logger);
  } catch (const spdlog::spdlog_ex& error) {
    return Error(ErrorCode::kIo, file + ": " + error.what());
  }
  SetLogLevel(level);
  return {};
}

void SetLogLevel(const std::string& level) {
  spdlog::set_level(level == "error" ? spdlog::level::err : spdlog::level::from_str(level));
}

void Log(LogLevel level, std::string_view event, LogFields fields) {
  const auto spd_level = LevelOf(level);
  if (!spdlog::should_log(spd_level)) return;
  std::string line(event);
  for (const auto& [key, value] : fields) {
    line += ' ';
    line += key;
    line += '=';
    AppendValue(line, value);
  }
  spdlog::log(spd_level, "{}", line);
}

}  // namespace quadfs::daemon
