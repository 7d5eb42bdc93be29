#pragma once

#include "metadata/types.h"
#include "metadata/view.h"
#include "transport/base/result.h"

namespace quadfs::metadata {

inline constexpr uint32_t kMayRead = 4;
inline constexpr uint32_t kMayWrite = 2;
inline constexpr uint32_t kMaySearch = 1;

inline constexpr uint32_t kSetUidBit = 04000;
inline constexpr uint32_t kSetGidBit = 02000;
inline constexpr uint32_t kStickyBit = 01000;
inline constexpr uint32_t kGroupExecuteBit = 00010;

bool IsInGroup(const Credentials& credentials, uint32_t gid);
/// The owner, or root.
bool IsOwner(const Attributes& attributes, const Credentials& credentials);

/// Search permission on a directory. Errors: kAccess.
Result<void> CheckSearch(const Attributes& directory, const Credentials& credentials);
/// To add a name to a directory. Errors: kAccess.
Result<void> CheckMayAdd(const Attributes& directory, const Credentials& credentials);
/// To take the name of `victim` out of a directory, with the sticky rule.
/// Errors: kAccess, kPermission.
Result<void> CheckMayRemove(const Attributes& directory, const Attributes& victim,
                            const Credentials& credentials);

/// Mode after a change of content or owner by somebody who may not keep set-id bits.
uint32_t WithoutSetId(uint32_t mode);

/// A name that can be in a directory: 1 to 255 bytes, no '/', no NUL, not "." or "..".
/// Errors: kInvalidArgument, kNameTooLong.
Result<void> CheckName(std::string_view name);
/// And one that may be added there: the root keeps ".quadfs" for itself. Errors: and kPermission.
Result<void> CheckNewName(InodeId parent, std::string_view name);

}  // namespace quadfs::metadata
