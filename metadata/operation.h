#pragma once

#include <cstdint>
#include <string>

#include "metadata/types.h"
#include "transport/base/ids.h"
#include "transport/base/random.h"

namespace quadfs::metadata {

/// What may be asked of the namespace. The numbers travel and are stored: frozen.
enum class OpKind : uint8_t {
  kCreate = 1,         ///< parent, name, inode (new number), type, mode, rdev, symlink_target.
  kLink = 2,           ///< inode, parent, name.
  kUnlink = 3,         ///< parent, name (anything but a directory).
  kRmdir = 4,          ///< parent, name.
  kRename = 5,         ///< parent, name → new_parent, new_name, rename_flags.
  kSetAttributes = 6,  ///< inode, set_mask and the fields it names (size changes by kPublish only).
  kSetXattr = 7,       ///< inode, xattr_name, xattr_value, xattr_flags.
  kRemoveXattr = 8,    ///< inode, xattr_name.
  kPublish = 9,  ///< inode, base → generation, size, root, mtime; location.node (0: the campus's
                 ///< store) becomes its holder. No mode check: that was done at open.
  kLocate = 10,  ///< inode, location; location_gone: forget it. A fact, executed at main. A
                 ///< verified copy in a campus's store replaces that campus's nodes as holders.
  kMember = 11,  ///< member. Executed at main.
};

inline constexpr uint32_t kRenameNoReplace = 1;  ///< As RENAME_NOREPLACE of renameat2(2).
inline constexpr uint32_t kRenameExchange = 2;   ///< As RENAME_EXCHANGE.
inline constexpr uint32_t kXattrCreate = 1;      ///< As XATTR_CREATE of setxattr(2).
inline constexpr uint32_t kXattrReplace = 2;     ///< As XATTR_REPLACE.

/// Bits of Operation::set_mask.
enum SetMask : uint32_t {
  kSetMode = 1,
  kSetUid = 2,
  kSetGid = 4,
  kSetAtime = 8,
  kSetMtime = 16,
  kSetCtime = 32,       ///< Only together with others: ctime moves by itself.
  kSetTimesToNow = 64,  ///< utimensat with UTIME_NOW: needs write permission, not ownership.
};

/// The version to publish after `base`: higher, and not one that was ever chosen for this inode
/// before, not on the other side of a cut nor in a history that became a conflict copy; so half
/// of it is random.
inline Generation NextGeneration(Generation base, Random& random) {
  return Generation((((base.value >> 32) + 1) << 32) | (random.Next() & 0xFFFFFFFF));
}

/// One request. Which fields count is said at its kind.
struct Operation {
  OpKind kind = OpKind::kCreate;
  Credentials credentials;
  int64_t now_ns = 0;  ///< The caller's wall clock: becomes mtime and ctime; decides nothing.

  InodeId parent;
  std::string name;
  InodeId inode;
  InodeId new_parent;
  std::string new_name;
  uint32_t rename_flags = 0;

  FileType type = FileType::kRegular;
  uint32_t mode = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint64_t rdev = 0;
  std::string symlink_target;
  uint32_t set_mask = 0;
  int64_t atime_ns = 0;
  int64_t mtime_ns = 0;

  std::string xattr_name;
  std::string xattr_value;
  uint32_t xattr_flags = 0;

  Generation base;        ///< kPublish: the version that was changed.
  Generation generation;  ///< kPublish: its successor, above `base`.
  uint64_t size = 0;
  Checksum root;

  Location location;
  bool location_gone = false;
  Member member;
};

/// What came of it.
struct OpResult {
  SequenceNumber view;    ///< Entry of the hub's view log that shows it.
  Attributes attributes;  ///< The inode created, linked, changed; of unlink and rename: the moved
                          ///< or removed one.
  std::optional<Attributes> replaced;  ///< kRename: what stood at the target (nlink 0: it is gone).
};

}  // namespace quadfs::metadata
