#include "fs/data/locations.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace quadfs::fs {

using metadata::FileType;

SaveState Locations::StateOf(const metadata::Attributes& attributes) const {
  // No content was ever published: the row is all there is, and the log has it.
  if (attributes.type != FileType::kRegular || !attributes.generation) return SaveState::kVerified;
  SaveState state = SaveState::kLocal;
  const auto locations = view_.Locations(attributes.inode);
  if (!locations.ok()) return state;
  for (const auto& location : *locations) {
    if (location.generation != attributes.generation || location.node) continue;
    const SaveState here = location.campus != kMainCampus ? SaveState::kCampus
                           : location.verified            ? SaveState::kVerified
                                                          : SaveState::kArchived;
    state = std::max(state, here);
  }
  return state;
}

Result<Locations::Shares> Locations::SharesOf(const metadata::Attributes& attributes) const {
  Shares shares;
  if (attributes.type == FileType::kDirectory) {
    const auto totals = QUADFS_TRY(view_.SubtreeTotals(attributes.inode));
    shares.bytes = totals.bytes;
    for (const auto& [campus, bytes] : totals.campus_bytes) {
      if (bytes > 0) shares.campuses.push_back({campus, bytes, bytes >= totals.bytes});
    }
    return shares;
  }
  shares.bytes = attributes.type == FileType::kRegular ? attributes.size : 0;
  const auto locations = view_.Locations(attributes.inode);
  if (!locations.ok()) {
    if (locations.error().code() != ErrorCode::kNotFound) return locations.error();
    return shares;
  }
  for (const auto& location : *locations) {
    if (location.generation != attributes.generation) continue;
    if (location.node) {
      shares.nodes.push_back({location.node, location.campus, shares.bytes});
    }
    const bool listed =
        std::any_of(shares.campuses.begin(), shares.campuses.end(),
                    [&](const CampusShare& share) { return share.campus == location.campus; });
    if (!listed) shares.campuses.push_back({location.campus, shares.bytes, true});
  }
  return shares;
}

std::string Locations::NameOf(CampusId campus, NodeId node) const {
  if (const auto member = view_.FindMember(campus, node); member.ok()) return member->name;
  return node ? "node-" + std::to_string(node.value) : "campus-" + std::to_string(campus.value);
}

Result<std::string> Locations::Json(const metadata::Attributes& attributes,
                                    const CachedBytes::Holder& own) const {
  const Shares shares = QUADFS_TRY(SharesOf(attributes));
  const auto fraction = [&](uint64_t bytes) {
    if (shares.bytes == 0) return 1.0;
    return std::min(1.0, static_cast<double>(bytes) / static_cast<double>(shares.bytes));
  };
  nlohmann::json json;
  const bool directory = attributes.type == FileType::kDirectory;
  if (!directory) json["generation"] = attributes.generation.value;
  json["bytes"] = shares.bytes;
  json["campuses"] = nlohmann::json::object();
  for (const auto& share : shares.campuses) {
    json["campuses"][NameOf(share.campus, NodeId(0))] = {
        {"bytes", share.bytes}, {"fraction", fraction(share.bytes)}, {"complete", share.complete}};
  }
  // A node is named once: by what it reported, by the log, and this one by its own cache.
  std::map<NodeId, CachedBytes::Holder> nodes;
  for (const auto& holder :
       cached_.HoldersOf(attributes.inode, directory ? Generation(0) : attributes.generation)) {
    nodes[holder.node] = holder;
  }
  for (const auto& holder : shares.nodes) nodes[holder.node] = holder;
  if (own.bytes > 0) {
    nodes[own.node] = own;
  } else if (shares.bytes > 0) {
    nodes.erase(own.node);
  }
  json["nodes"] = nlohmann::json::object();
  for (const auto& [id, holder] : nodes) {
    json["nodes"][NameOf(holder.campus, id)] = {{"bytes", holder.bytes},
                                                {"fraction", fraction(holder.bytes)}};
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<std::string> Locations::Campuses(const metadata::Attributes& attributes) const {
  Shares shares = QUADFS_TRY(SharesOf(attributes));
  std::erase_if(shares.campuses, [](const CampusShare& share) { return !share.complete; });
  std::sort(shares.campuses.begin(), shares.campuses.end(),
            [&](const CampusShare& a, const CampusShare& b) {
              const bool a_own = a.campus == own_campus_, b_own = b.campus == own_campus_;
              if (a_own != b_own) return a_own;
              if (a.bytes != b.bytes) return a.bytes > b.bytes;
              return a.campus < b.campus;
            });
  std::string text;
  for (const auto& share : shares.campuses) {
    text += (text.empty() ? "" : ",") + NameOf(share.campus, NodeId(0));
  }
  return text;
}

}  // namespace quadfs::fs
