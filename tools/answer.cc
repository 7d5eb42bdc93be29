#include "tools/answer.h"

#include <cstdio>

namespace quadfs::tools {

using Json = nlohmann::json;

int ExitStatusOf(ErrorCode code) {
  if (code == ErrorCode::kUnavailable) return kNotReachable;
  if (code == ErrorCode::kTimedOut) return kIncomplete;
  return kFailed;
}

int Report(const Common& common, const char* command, const Error& error) {
  std::fprintf(stderr, "quadfs %s: %s\n", command, error.message().c_str());
  if (common.json) {
    const Json json{{"ok", false},
                    {"error", error.message()},
                    {"code", std::string(ErrorCodeName(error.code()))}};
    std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  }
  return ExitStatusOf(error.code());
}

int ReportUsage(const char* command, const std::string& message) {
  std::fprintf(stderr, "quadfs %s: %s\n", command, message.c_str());
  return kUsage;
}

int Finish(const Common& common, const Json& answer, const std::string& text) {
  if (common.json) {
    std::printf("%s\n", answer.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  } else if (!text.empty()) {
    std::printf("%s\n", text.c_str());
  }
  return std::fflush(stdout) == 0 ? kDone : kFailed;
}

Result<std::string> SocketPath(const Common& common) {
  if (!common.run_dir.empty()) return common.run_dir + "/quadfsd.sock";
  const daemon::Config config = QUADFS_TRY(daemon::LoadConfig(common.config));
  return config.socket_path();
}

}  // namespace quadfs::tools
