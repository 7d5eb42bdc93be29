#include <algorithm>

#include "metadata/ops/ops.h"

namespace quadfs::metadata {
namespace {

bool IsSamePlace(const Location& one, const Location& other) {
  return one.campus == other.campus && one.node == other.node && one.generation == other.generation;
}

void AddLocation(std::vector<Location>& locations, const Location& added) {
  const auto same = std::find_if(locations.begin(), locations.end(),
                                 [&](const Location& one) { return IsSamePlace(one, added); });
  if (same != locations.end()) {
    same->verified = same->verified || added.verified;
  } else {
    locations.push_back(added);
  }
  if (added.node || !added.verified) return;
  std::erase_if(locations, [&](const Location& one) {
    return one.node && one.campus == added.campus && one.generation == added.generation;
  });
}

}  // namespace

Result<OpResult> ExecuteLocate(TreeEdit& tree, const Operation& op) {
  if (!op.location.campus || !op.location.generation) {
    return Error(ErrorCode::kInvalidArgument, "a location needs a campus and a version");
  }
  OpResult result;
  const auto found = QUADFS_TRY(FindInode(tree, op.inode));
  if (found) {
    result.attributes = *found;
  } else {
    const auto tomb = QUADFS_TRY(FindTomb(tree, op.inode));
    if (!tomb) return Error(ErrorCode::kNotFound, "no such inode");
    result.attributes = tomb->attributes;
  }
  const RowKey key = LocationKey(op.inode);
  const auto row = QUADFS_TRY(tree.Read(key));
  std::vector<Location> locations;
  if (row) locations = QUADFS_TRY(DecodeLocations(*row));
  if (op.location_gone) {
    std::erase_if(locations, [&](const Location& one) { return IsSamePlace(one, op.location); });
  } else {
    // A version that is neither current nor remembered as held by anybody is past.
    const bool known = op.location.generation == result.attributes.generation ||
                       std::any_of(locations.begin(), locations.end(), [&](const Location& one) {
                         return one.generation == op.location.generation;
                       });
    if (!known) return result;
    AddLocation(locations, op.location);
    if (locations.size() > kMaxLocations) {
      return Error(ErrorCode::kTooLarge, "the file has as many holders as can be remembered");
    }
  }
  tree.Set(key, locations.empty() ? std::nullopt : std::optional(EncodeLocations(locations)));
  return result;
}

Result<OpResult> ExecuteMember(TreeEdit& tree, const Operation& op) {
  const Member& member = op.member;
  if (!member.campus || member.name.empty() || member.name.size() > kMaxNameBytes ||
      member.addresses.size() > kMaxMemberAddresses) {
    return Error(ErrorCode::kInvalidArgument, "a member needs a campus, a name, few addresses");
  }
  tree.Set(MemberKey(member.campus, member.node), EncodeMember(member));
  return OpResult();
}

}  // namespace quadfs::metadata
