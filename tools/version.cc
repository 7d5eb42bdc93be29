#include "fs/daemon/version.h"

#include "tools/answer.h"
#include "tools/control_client.h"

namespace quadfs::tools {

int RunVersion(const Common& common) {
  nlohmann::json json{{"version", daemon::kVersion}};
  std::string text = std::string("quadfs ") + daemon::kVersion;
  // The daemon's is told if it runs; that it does not run is no failure here.
  if (const auto socket = SocketPath(common); socket.ok()) {
    if (const auto answer = AskDaemon(*socket, {{"verb", "version"}}); answer.ok()) {
      json["daemon_version"] = answer->value("version", "");
      text += ", quadfsd " + answer->value("version", "");
    }
  }
  return Finish(common, json, text);
}

}  // namespace quadfs::tools
