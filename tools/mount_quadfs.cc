// mount.quadfs: what mount(8) runs for a line of fstab such as
//   quadfs  /grid  quadfs  _netdev,nofail,config=/etc/quadfs/quadfs.toml  0 0
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "tools/mount_arguments.h"
#include "tools/start_daemon.h"

namespace {

// As mount(8) documents them.
constexpr int kUsage = 1, kSystemError = 2, kMountFailed = 32;

int Fail(int status, const std::string& message) {
  std::fprintf(stderr, "mount.quadfs: %s\n", message.c_str());
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments =
      quadfs::tools::ParseMountArguments(std::vector<std::string>(argv + 1, argv + argc));
  if (!arguments.ok()) return Fail(kUsage, arguments.error().message());
  if (::geteuid() != 0) return Fail(kUsage, "only root can do that");
  const auto config =
      quadfs::daemon::LoadConfig(std::filesystem::absolute(arguments->config).string());
  if (!config.ok()) return Fail(kMountFailed, config.error().message());
  if (!config->node)
    return Fail(kMountFailed, arguments->config + ": no [node]: nothing to mount here");
  if (config->node->mount != arguments->target) {
    return Fail(
        kMountFailed,
        config->Complaint("node.mount", "is " + config->node->mount + ", not " + arguments->target)
            .message());
  }
  if (arguments->fake) return 0;
  const auto mounted = quadfs::tools::MountTree(*config, arguments->options, arguments->timeout);
  if (mounted.ok()) return 0;
  const bool missing = mounted.error().code() == quadfs::ErrorCode::kNotFound;
  return Fail(missing ? kSystemError : kMountFailed, mounted.error().message());
}
