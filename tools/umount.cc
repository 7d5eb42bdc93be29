#include "fs/daemon/units.h"
#include "tools/answer.h"
#include "tools/control_client.h"

namespace quadfs::tools {

int RunUmount(const Common& common, const UmountOptions& options) {
  const auto timeout = daemon::ParseDuration(options.timeout);
  if (!timeout.ok()) return ReportUsage("umount", "--timeout: " + timeout.error().message());
  const auto socket = SocketPath(common);
  if (!socket.ok()) return Report(common, "umount", socket.error());
  const auto answer = AskDaemon(*socket, {{"verb", "umount"},
                                          {"lazy", options.lazy},
                                          {"timeout_ms", static_cast<uint64_t>(timeout->count())}});
  if (!answer.ok()) return Report(common, "umount", answer.error());
  return Finish(common, *answer, answer->value("mount", "") + " is unmounted");
}

}  // namespace quadfs::tools
