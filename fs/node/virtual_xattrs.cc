#include "fs/node/virtual_xattrs.h"

namespace quadfs::fs {
namespace {

using metadata::FileType;

constexpr std::string_view kPrefix = "user.quad.";
constexpr std::string_view kPolicyPrefix = "user.quad.policy.";  // Kept and listed like any other.

bool ChangedHere(MountCore& core, uint64_t nodeid) {
  const FileTable::Ref file = core.files.Find(nodeid);
  if (!file) return false;
  const MutexLock lock(file->mutex);
  return file->Changed() || file->pending;
}

}  // namespace

bool IsVirtualXattr(std::string_view name) {
  return name.starts_with(kPrefix) && !name.starts_with(kPolicyPrefix);
}

Result<std::string> VirtualXattr(MountCore& core, const metadata::Attributes& row, uint64_t nodeid,
                                 std::string_view name) {
  const std::string_view what = name.substr(kPrefix.size());
  const bool is_file = row.type == FileType::kRegular;
  if (!is_file && row.type != FileType::kDirectory) {
    return Error(ErrorCode::kNoAttribute, "only files and directories have it");
  }
  if (what == "locations") return core.data.LocationsJson(row);
  if (what == "campuses") return core.data.CampusesText(row);
  if (what == "lag") return std::to_string(core.replica.status().lag.count()) + "ms";
  if (is_file && what == "state") {
    const bool dirty = ChangedHere(core, nodeid);
    return std::string(SaveStateName(dirty ? SaveState::kDirty : core.data.StateOf(row)));
  }
  if (is_file && what == "version") return std::to_string(row.generation.value);
  if (is_file && what == "checksum" && row.generation.value != 0) {
    return "xxh3-128:" + row.root.ToHex();
  }
  return Error(ErrorCode::kNoAttribute, "no such attribute");
}

}  // namespace quadfs::fs
