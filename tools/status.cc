#include "fs/daemon/units.h"
#include "tools/answer.h"
#include "tools/control_client.h"

namespace quadfs::tools {
namespace {

using Json = nlohmann::json;

uint64_t Number(const Json& json, const char* key) { return json.value(key, uint64_t{0}); }

std::string Cache(const Json& part) {
  const Json cache = part.value("cache", Json::object());
  std::string text = daemon::FormatBytes(Number(cache, "used_bytes")) + " of " +
                     daemon::FormatBytes(Number(cache, "capacity_bytes"));
  if (const uint64_t unsaved = Number(cache, "unsaved_objects"); unsaved > 0) {
    text += ", " + std::to_string(unsaved) + " files unsaved (" +
            daemon::FormatBytes(Number(cache, "unsaved_bytes")) + ")";
  }
  return text;
}

std::string Queue(const Json& part) {
  const Json queue = part.value("writeback", Json::object());
  const uint64_t queued = Number(queue, "queued");
  if (queued == 0) return "nothing queued";
  return std::to_string(queued) + " files, " + daemon::FormatBytes(Number(queue, "queued_bytes")) +
         ", " + daemon::FormatBytes(static_cast<uint64_t>(queue.value("bytes_per_second", 0.0))) +
         "/s" + (queue.value("paused", false) ? ", paused" : "");
}

std::string Describe(const Json& status) {
  std::string text = "campus " + status.value("campus", "") + ", quadfsd " +
                     status.value("version", "") +
                     (status.value("ready", false) ? ", ready" : ", starting");
  if (status.contains("hub")) {
    const Json& hub = status["hub"];
    text += "\nhub        " + hub.value("address", "") +
            (hub.value("primary", false) ? ", main's" : "") + ", store " + hub.value("store", "");
    text += "\n  main     " +
            std::string(hub.value("main_connected", false) ? "connected" : "NOT CONNECTED") + ", " +
            std::to_string(Number(hub, "pending")) + " changes pending";
    size_t connected = 0;
    for (const Json& peer : hub.value("peers", Json::array()))
      connected += peer.value("connected", false);
    text += "\n  members  " + std::to_string(connected) + " of " +
            std::to_string(hub.value("peers", Json::array()).size()) + " connected";
    text += "\n  cache    " + Cache(hub);
    if (hub.contains("writeback")) text += "\n  archive  " + Queue(hub);
  }
  if (status.contains("node")) {
    const Json& node = status["node"];
    const Json mount = status.value("mount", Json::object());
    text += "\nnode       " + node.value("name", "") + " at " + mount.value("path", "") +
            (mount.value("mounted", false) ? "" : " (not mounted)") +
            (mount.value("passthrough", false) ? ", passthrough" : "");
    text += "\n  hub      " +
            std::string(node.value("connected", false) ? "connected" : "NOT CONNECTED") +
            ", main " + (node.value("main_connected", false) ? "connected" : "NOT CONNECTED");
    text += "\n  cache    " + Cache(node);
    text += "\n  sending  " + Queue(node);
  }
  for (const Json& problem : status.value("problems", Json::array())) {
    text += "\nproblem    " + problem.get<std::string>();
  }
  return text;
}

}  // namespace

int RunStatus(const Common& common) {
  const auto socket = SocketPath(common);
  if (!socket.ok()) return Report(common, "status", socket.error());
  const auto answer = AskDaemon(*socket, {{"verb", "status"}});
  if (!answer.ok()) return Report(common, "status", answer.error());
  return Finish(common, *answer, Describe(*answer));
}

}  // namespace quadfs::tools
