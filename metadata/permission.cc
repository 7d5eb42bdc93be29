#include "metadata/permission.h"

#include <algorithm>

namespace quadfs::metadata {

bool IsInGroup(const Credentials& credentials, uint32_t gid) {
  return credentials.gid == gid || std::find(credentials.groups.begin(), credentials.groups.end(),
                                             gid) != credentials.groups.end();
}

bool IsOwner(const Attributes& attributes, const Credentials& credentials) {
  return credentials.uid == 0 || credentials.uid == attributes.uid;
}

bool MayAccess(const Attributes& attributes, const Credentials& credentials, uint32_t access) {
  if (credentials.uid == 0) {  // Root needs one execute bit to run a file.
    return attributes.type == FileType::kDirectory || (access & kMaySearch) == 0 ||
           (attributes.mode & 0111) != 0;
  }
  uint32_t granted = attributes.mode & 7;
  if (credentials.uid == attributes.uid) {
    granted = (attributes.mode >> 6) & 7;
  } else if (IsInGroup(credentials, attributes.gid)) {
    granted = (attributes.mode >> 3) & 7;
  }
  return (access & ~granted & 7) == 0;
}

Result<void> CheckSearch(const Attributes& directory, const Credentials& credentials) {
  if (MayAccess(directory, credentials, kMaySearch)) return {};
  return Error(ErrorCode::kAccess, "no search permission on the directory");
}

Result<void> CheckMayAdd(const Attributes& directory, const Credentials& credentials) {
  if (MayAccess(directory, credentials, kMayWrite | kMaySearch)) return {};
  return Error(ErrorCode::kAccess, "no write permission on the directory");
}

Result<void> CheckMayRemove(const Attributes& directory, const Attributes& victim,
                            const Credentials& credentials) {
  QUADFS_TRY(CheckMayAdd(directory, credentials));
  if ((directory.mode & kStickyBit) != 0 && !IsOwner(directory, credentials) &&
      !IsOwner(victim, credentials)) {
    return Error(ErrorCode::kPermission, "the directory is sticky and neither is the caller's");
  }
  return {};
}

uint32_t WithoutSetId(uint32_t mode) {
  mode &= ~kSetUidBit;
  if ((mode & kGroupExecuteBit) != 0) mode &= ~kSetGidBit;
  return mode;
}

Result<void> CheckName(std::string_view name) {
  if (name.size() > kMaxNameBytes) {
    return Error(ErrorCode::kNameTooLong, "name is longer than 255 bytes");
  }
  if (name.empty() || name == "." || name == ".." ||
      name.find_first_of(std::string_view("/\0", 2)) != std::string_view::npos) {
    return Error(ErrorCode::kInvalidArgument, "not a name that can be in a directory");
  }
  return {};
}

Result<void> CheckNewName(InodeId parent, std::string_view name) {
  QUADFS_TRY(CheckName(name));
  if (parent == kRootInode && name == ".quadfs") {
    return Error(ErrorCode::kPermission, "the root's name \".quadfs\" is reserved");
  }
  return {};
}

}  // namespace quadfs::metadata
