#include "fs/daemon/version.h"

#include "fs/daemon/control_call.h"

namespace quadfs::daemon {

Result<nlohmann::json> RunVersion(Daemon&, ControlCall&) {
  return nlohmann::json{{"version", kVersion}};
}

}  // namespace quadfs::daemon
