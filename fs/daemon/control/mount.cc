// quadfs mount and quadfs umount, for a daemon that runs.
#include "fs/daemon/control/tree.h"

namespace quadfs::daemon {

Result<nlohmann::json> RunMount(Daemon& daemon, ControlCall& call) {
  const auto node = QUADFS_TRY(NeedNode(daemon));
  if (!node->mount()) {
    // Two that mount at once: the second finds it mounted, which is what it wanted.
    auto mounted = node->Mount(call.Word("options"));
    if (!mounted.ok() && mounted.error().code() != ErrorCode::kBusy)
      return std::move(mounted).error();
  }
  return nlohmann::json{{"mount", node->mount_point()}};
}

Result<nlohmann::json> RunUmount(Daemon& daemon, ControlCall& call) {
  const auto node = QUADFS_TRY(NeedNode(daemon));
  QUADFS_TRY(node->Unmount(call.Flag("lazy"), call.DeadlineOr(std::chrono::minutes(5))));
  return nlohmann::json{{"mount", node->mount_point()}};
}

}  // namespace quadfs::daemon
