#include "fs/daemon/units.h"
#include "tools/answer.h"
#include "tools/start_daemon.h"

namespace quadfs::tools {

int RunMount(const Common& common, const MountOptions& options) {
  const auto timeout = daemon::ParseDuration(options.timeout);
  if (!timeout.ok()) return ReportUsage("mount", "--timeout: " + timeout.error().message());
  const auto config = daemon::LoadConfig(common.config);
  if (!config.ok()) return Report(common, "mount", config.error());
  auto mounted = MountTree(*config, options.options, *timeout);
  if (!mounted.ok() && mounted.error().code() != ErrorCode::kExists) {
    return Report(common, "mount", mounted.error());
  }
  return Finish(common, {{"ok", true}, {"mount", config->node->mount}},
                config->node->mount + " is mounted");
}

}  // namespace quadfs::tools
