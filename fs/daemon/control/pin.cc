// quadfs pin: keeps a path's files in this node's cache, fetching what is missing in the
// background.
#include "fs/daemon/control/tree.h"

namespace quadfs::daemon {
namespace {

using Json = nlohmann::json;

Result<Json> SetPinned(Daemon& daemon, ControlCall& call, bool pinned) {
  const auto node = QUADFS_TRY(NeedNode(daemon));
  const auto targets = QUADFS_TRY(FindTargets(daemon, call));
  const auto files = QUADFS_TRY(ListFiles(node->replica().view(), targets, call));
  uint64_t changed = 0, bytes = 0, queued = 0, failed = 0;
  std::string problem;
  for (const metadata::Attributes& file : files) {
    if (call.cancelled()) return Error(ErrorCode::kCancelled, "cancelled");
    if (!file.generation) continue;  // Never had content: nothing to keep.
    const ObjectId id{file.inode, file.generation};
    auto object =
        pinned ? node->cache().FindOrCreate(id, file.size, file.root) : node->cache().Find(id);
    if (!object.ok()) {
      if (pinned) {
        ++failed;
        problem = object.error().message();
      }
      continue;
    }
    if (auto set = node->cache().SetPinned(id, pinned); !set.ok()) {
      ++failed;
      problem = set.error().message();
      continue;
    }
    ++changed;
    bytes += file.size;
    if (!pinned || (*object)->complete()) continue;
    auto later = node->data().fetcher().CompleteLater(*object, fs::Fetcher::Priority::kPrefetch);
    if (later.ok()) {
      ++queued;
    } else {
      problem = later.error().message();
    }
  }
  Json json{{"files", changed}, {"bytes", bytes}, {"failed_files", failed}};
  if (pinned) json["fetching_files"] = queued;
  if (!problem.empty()) json["problem"] = problem;
  return json;
}

}  // namespace

Result<nlohmann::json> RunPin(Daemon& daemon, ControlCall& call) {
  return SetPinned(daemon, call, true);
}
Result<nlohmann::json> RunUnpin(Daemon& daemon, ControlCall& call) {
  return SetPinned(daemon, call, false);
}

}  // namespace quadfs::daemon
