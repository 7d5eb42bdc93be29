#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "metadata/types.h"
#include "transport/base/clock.h"
#include "transport/base/result.h"

namespace quadfs::daemon {

class Daemon;

/// One request on the control socket, as a verb sees it. Private to the daemon.
struct ControlCall {
  const nlohmann::json& request;
  metadata::Credentials credentials;  ///< Of the process at the other end, as the kernel says.
  /// Sends a progress line; at most a few a second.
  std::function<void(const nlohmann::json&)> progress;
  /// True once the asker went away or the daemon stops: give up soon.
  std::function<bool()> cancelled;

  bool admin() const { return credentials.uid == 0; }
  /// A string, empty if absent.
  std::string Word(const char* key) const;
  bool Flag(const char* key) const;
  /// Paths, decoded.
  std::vector<std::string> Paths() const;
  /// "timeout_ms", at most a week; absent: `standard`.
  Deadline DeadlineOr(std::chrono::milliseconds standard) const;
};

/// What `quadfs NAME` asks the daemon for.
struct ControlVerb {
  const char* name;
  bool admin;  ///< Root only.
  Result<nlohmann::json> (*run)(Daemon&, ControlCall&);
};
/// Every verb, and the file that holds it: control/<name>.cc.
const std::vector<ControlVerb>& ControlVerbs();

Result<nlohmann::json> RunStatus(Daemon& daemon, ControlCall& call);
Result<nlohmann::json> RunWhere(Daemon& daemon, ControlCall& call);
Result<nlohmann::json> RunPrefetch(Daemon& daemon, ControlCall& call);
Result<nlohmann::json> RunSync(Daemon& daemon, ControlCall& call);
Result<nlohmann::json> RunEvict(Daemon& daemon, ControlCall& call);
Result<nlohmann::json> RunPin(Daemon& daemon, ControlCall& call);
Result<nlohmann::json> RunUnpin(Daemon& daemon, ControlCall& call);
Result<nlohmann::json> RunToken(Daemon& daemon, ControlCall& call);
Result<nlohmann::json> RunMount(Daemon& daemon, ControlCall& call);
Result<nlohmann::json> RunUmount(Daemon& daemon, ControlCall& call);
Result<nlohmann::json> RunVersion(Daemon& daemon, ControlCall& call);

}  // namespace quadfs::daemon
