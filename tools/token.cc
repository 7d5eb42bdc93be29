#include "fs/daemon/units.h"
#include "tools/answer.h"
#include "tools/control_client.h"

namespace quadfs::tools {

int RunToken(const Common& common, const TokenOptions& options) {
  const auto valid = daemon::ParseDuration(options.valid);
  if (!valid.ok()) return ReportUsage("token", "--valid: " + valid.error().message());
  const auto socket = SocketPath(common);
  if (!socket.ok()) return Report(common, "token", socket.error());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*valid).count();
  const auto answer = AskDaemon(*socket, {{"verb", "token"},
                                          {"role", options.role},
                                          {"campus", options.campus},
                                          {"name", options.name},
                                          {"valid_seconds", static_cast<uint64_t>(seconds)}});
  if (!answer.ok()) return Report(common, "token", answer.error());
  return Finish(common, *answer, answer->value("token", ""));
}

}  // namespace quadfs::tools
