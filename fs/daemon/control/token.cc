// quadfs token: a line with which a campus or a node may join, once.
#include "fs/daemon/control_call.h"
#include "fs/daemon/daemon.h"
#include "fs/daemon/log.h"

namespace quadfs::daemon {

Result<nlohmann::json> RunToken(Daemon& daemon, ControlCall& call) {
  const auto hub = daemon.hub();
  if (!hub) return Error(ErrorCode::kNotSupported, "tokens are made at main's hub; this is not it");
  transport::PeerIdentity wanted;
  const std::string role = call.Word("role");
  if (role != "hub" && role != "node") {
    return Error(ErrorCode::kInvalidArgument, "role '" + role + "'; allowed: hub, node");
  }
  wanted.wanted_role = role == "hub" ? transport::Role::kHub : transport::Role::kNode;
  wanted.campus_name = call.Word("campus");
  wanted.name = call.Word("name");
  if (wanted.campus_name.empty()) return Error(ErrorCode::kInvalidArgument, "no campus given");
  const auto seconds = call.request.value("valid_seconds", uint64_t{86'400});
  if (seconds < 10 || seconds > 30 * 86'400) {
    return Error(ErrorCode::kInvalidArgument, "validity; allowed: 10 s to 30 d");
  }
  const std::string line =
      QUADFS_TRY(hub->enrolment().MakeJoinLine(wanted, std::chrono::seconds(seconds)));
  LogInfo("token made", {{"role", role}, {"campus", wanted.campus_name}, {"name", wanted.name}});
  return nlohmann::json{{"token", line}, {"valid_seconds", seconds}};
}

}  // namespace quadfs::daemon
