// quadfs status: what this machine is, whether it is connected, what is queued, what is wrong.
#include <unistd.h>

#include "fs/daemon/control_call.h"
#include "fs/daemon/daemon.h"
#include "fs/daemon/version.h"

namespace quadfs::daemon {
namespace {

using Json = nlohmann::json;

Json CacheJson(const cache::BlockCache::Status& status) {
  return {{"used_bytes", status.used_bytes},
          {"capacity_bytes", status.capacity_bytes},
          {"objects", status.objects},
          {"dirty_objects", status.dirty_objects},
          {"unsaved_objects", status.unsaved_objects},
          {"unsaved_bytes", status.unsaved_bytes},
          {"evicted_objects", status.evicted_objects},
          {"corrupt_blocks", status.corrupt_blocks}};
}

Json QueueJson(fs::WriteBack& queue) {
  const auto status = queue.status();
  Json waiting = Json::array();
  for (const fs::WriteBack::Entry& entry : queue.Entries(20)) {
    waiting.push_back({{"inode", entry.object.inode.value},
                       {"generation", entry.object.generation.value},
                       {"bytes", entry.size_bytes},
                       {"sent_bytes", entry.sent_bytes},
                       {"attempts", entry.attempts},
                       {"problem", entry.problem}});
  }
  return {{"queued", status.queued},         {"queued_bytes", status.queued_bytes},
          {"sent_bytes", status.sent_bytes}, {"bytes_per_second", status.bytes_per_second},
          {"paused", status.paused},         {"entries", waiting}};
}

Json FetcherJson(const fs::Fetcher::Status& status) {
  return {{"fetched_blocks", status.fetched_blocks},
          {"fetched_bytes", status.fetched_bytes},
          {"failed_runs", status.failed_runs},
          {"corrupt_blocks", status.corrupt_blocks},
          {"queued_runs", status.queued_runs}};
}

void AddProblem(Json& problems, const char* where, const std::string& text) {
  if (!text.empty()) problems.push_back(std::string(where) + ": " + text);
}

Json HubJson(HubRole& role, const Config& config, Json& problems) {
  const metadata::Hub::Status status = role.hub().status();
  Json peers = Json::array();
  for (const auto& peer : status.peers) {
    peers.push_back({{"name", peer.member.name},
                     {"campus", peer.member.campus.value},
                     {"node", peer.member.node.value},
                     {"connected", peer.connected},
                     {"position", peer.position.value},
                     {"silent_ms", peer.silent.count()}});
  }
  AddProblem(problems, "main", status.problem);
  if (status.lease_violations > 0) {
    AddProblem(problems, "leases", std::to_string(status.lease_violations) + " violations");
  }
  const auto cache = role.cache().status();
  AddProblem(problems, "hub cache", cache.problem);
  const auto fetched = role.data().fetcher().status();
  AddProblem(problems, "hub fetch", fetched.problem);
  Json json{{"primary", status.primary},
            {"address", role.address()},
            {"store", config.hub ? config.hub->store : ""},
            {"main_connected", status.main_connected},
            {"position", status.position.value},
            {"global", status.global.value},
            {"pending", status.pending},
            {"leases", status.leases},
            {"lease_violations", status.lease_violations},
            {"peers", peers},
            {"cache", CacheJson(cache)},
            {"fetch", FetcherJson(fetched)}};
  if (fs::WriteBack* queue = role.data().write_back()) {
    json["writeback"] = QueueJson(*queue);
    AddProblem(problems, "archive", queue->status().problem);
  }
  return json;
}

Json MountJson(NodeRole& role, Json& problems) {
  const auto mount = role.mount();
  Json json{{"path", role.mount_point()}, {"mounted", mount != nullptr}};
  if (!mount) return json;
  const auto status = mount->status();
  AddProblem(problems, "mount", status.problem);
  json["passthrough"] = status.passthrough;
  json["open_files"] = status.open_files;
  json["inodes"] = status.inodes;
  json["passthrough_opens"] = status.passthrough_opens;
  json["cached_opens"] = status.cached_opens;
  return json;
}

Json NodeJson(NodeRole& role, Json& problems) {
  const metadata::NodeReplica::Status status = role.replica().status();
  AddProblem(problems, "hub", status.problem);
  const auto cache = role.cache().status();
  AddProblem(problems, "cache", cache.problem);
  const auto fetched = role.data().fetcher().status();
  AddProblem(problems, "fetch", fetched.problem);
  AddProblem(problems, "write-back", role.data().write_back().status().problem);
  return {{"name", role.name()},
          {"connected", status.connected},
          {"main_connected", status.main_connected},
          {"lag_ms", status.lag.count()},
          {"position", status.position.value},
          {"journal_entries", status.journal_entries},
          {"cache", CacheJson(cache)},
          {"fetch", FetcherJson(fetched)},
          {"writeback", QueueJson(role.data().write_back())}};
}

}  // namespace

Result<nlohmann::json> RunStatus(Daemon& daemon, ControlCall&) {
  const Config config = daemon.config();
  Json problems = Json::array();
  Json json{{"version", kVersion},        {"pid", ::getpid()},       {"cluster", config.cluster},
            {"campus", config.campus},    {"ready", daemon.ready()}, {"config", config.path},
            {"summary", daemon.Summary()}};
  bool connected = true;
  if (const auto hub = daemon.hub()) {
    json["hub"] = HubJson(*hub, config, problems);
    connected = json["hub"]["main_connected"].get<bool>();
  }
  if (const auto node = daemon.node()) {
    json["node"] = NodeJson(*node, problems);
    json["mount"] = MountJson(*node, problems);
    connected = json["node"]["connected"].get<bool>() && json["node"]["main_connected"].get<bool>();
  }
  json["main_connected"] = connected && daemon.ready();
  json["problems"] = problems;
  return json;
}

}  // namespace quadfs::daemon
