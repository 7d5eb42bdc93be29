// quadfs where: which campuses and nodes hold a path, and what this node has of it.
#include "fs/daemon/control/tree.h"

namespace quadfs::daemon {
namespace {

using Json = nlohmann::json;

const char* TypeName(metadata::FileType type) {
  switch (type) {
    case metadata::FileType::kRegular: return "file";
    case metadata::FileType::kDirectory: return "directory";
    case metadata::FileType::kSymlink: return "symlink";
    case metadata::FileType::kFifo: return "fifo";
    case metadata::FileType::kSocket: return "socket";
    case metadata::FileType::kCharacterDevice: return "character device";
    case metadata::FileType::kBlockDevice: return "block device";
  }
  return "unknown";
}

/// What this node's own cache holds of a file.
void AddCached(NodeRole& node, const metadata::Attributes& file, Json& json) {
  auto object = node.cache().FindDirty(file.inode);
  if (!object.ok()) object = node.cache().Find({file.inode, file.generation});
  json["cached_bytes"] = object.ok() ? (*object)->present_bytes() : 0;
  json["cached"] = object.ok() && (*object)->complete();
  if (object.ok()) {
    json["cache_file"] = (*object)->path();
    json["unsaved"] = (*object)->unsaved() || (*object)->dirty();
  }
}

/// At a hub without a mount: which campuses hold it, from the rows alone.
Result<Json> FromView(const metadata::View& view, const metadata::Attributes& attributes) {
  Json campuses = Json::object();
  Json nodes = Json::object();
  const auto name_of = [&view](CampusId campus, NodeId node) {
    const auto member = view.FindMember(campus, node);
    return member.ok() ? member->name
                       : std::to_string(campus.value) + "/" + std::to_string(node.value);
  };
  uint64_t bytes = attributes.size;
  if (attributes.type == metadata::FileType::kDirectory) {
    const metadata::Totals totals = QUADFS_TRY(view.SubtreeTotals(attributes.inode));
    bytes = totals.bytes;
    for (const auto& [campus, held] : totals.campus_bytes) {
      campuses[name_of(campus, NodeId())] = {{"bytes", held}, {"complete", held == totals.bytes}};
    }
  } else {
    for (const metadata::Location& place : QUADFS_TRY(view.Locations(attributes.inode))) {
      if (place.generation != attributes.generation) continue;
      const Json held{{"bytes", attributes.size}, {"complete", true}};
      campuses[name_of(place.campus, NodeId())] = held;
      if (place.node) nodes[name_of(place.campus, place.node)] = held;
    }
  }
  return Json{{"bytes", bytes}, {"campuses", campuses}, {"nodes", nodes}};
}

Result<Json> WhereIs(const Daemon& daemon, const Target& target) {
  const auto node = daemon.node();
  const metadata::Attributes& attributes = target.attributes;
  Json json;
  if (node) {
    const std::string text = QUADFS_TRY(node->data().LocationsJson(attributes));
    json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object())
      return Error(ErrorCode::kCorruption, "the locations are not a JSON object");
  } else {
    json = QUADFS_TRY(FromView(daemon.hub()->hub().view(), attributes));
  }
  json["path"] = target.shown;
  json["type"] = TypeName(attributes.type);
  json["inode"] = attributes.inode.value;
  if (attributes.type == metadata::FileType::kRegular) {
    json["generation"] = attributes.generation.value;
    if (node) {
      const auto mount = node->mount();
      const bool dirty = mount && mount->IsDirty(attributes.inode);
      json["state"] =
          fs::SaveStateName(dirty ? fs::SaveState::kDirty : node->data().StateOf(attributes));
      AddCached(*node, attributes, json);
    }
  } else if (attributes.type == metadata::FileType::kDirectory) {
    const metadata::View& view = node ? node->replica().view() : daemon.hub()->hub().view();
    if (const auto totals = view.SubtreeTotals(attributes.inode); totals.ok()) {
      json["files"] = totals->files;
      json["directories"] = totals->directories;
    }
  }
  return json;
}

}  // namespace

Result<nlohmann::json> RunWhere(Daemon& daemon, ControlCall& call) {
  const auto targets = QUADFS_TRY(FindTargets(daemon, call));
  Json paths = Json::array();
  for (const Target& target : targets) paths.push_back(QUADFS_TRY(WhereIs(daemon, target)));
  if (paths.size() == 1) return paths[0];
  return Json{{"paths", paths}};
}

}  // namespace quadfs::daemon
