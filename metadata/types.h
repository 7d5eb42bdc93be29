#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "transport/base/checksum.h"
#include "transport/base/ids.h"

namespace quadfs::metadata {

/// Kind of an inode. The numbers are stored: frozen.
enum class FileType : uint8_t {
  kRegular = 1,
  kDirectory = 2,
  kSymlink = 3,
  kFifo = 4,
  kSocket = 5,
  kCharacterDevice = 6,
  kBlockDevice = 7,
};

inline constexpr size_t kMaxNameBytes = 255;
inline constexpr size_t kMaxSymlinkBytes = 4095;
inline constexpr size_t kMaxXattrNameBytes = 255;
inline constexpr size_t kMaxXattrValueBytes = 65536;
inline constexpr uint32_t kMaxLinks = 65000;

/// The row of an inode: everything stat shows, and which content it has.
struct Attributes {
  InodeId inode;
  FileType type = FileType::kRegular;
  uint32_t mode = 0;  ///< Permission, set-id and sticky bits: 07777.
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint64_t rdev = 0;
  uint32_t nlink =
      0;  ///< Names of a file (0: removed, maybe still open); 2 + subdirectories of a directory.
  uint64_t size = 0;     ///< Bytes of content; length of a symlink's target.
  int64_t atime_ns = 0;  ///< Nanoseconds since the epoch, all four.
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  int64_t birth_ns = 0;
  InodeId parent;          ///< Primary parent: the directory whose lease covers this inode.
  uint64_t name_hash = 0;  ///< NameHash of the name there: tells torn rows without another read.
  Generation generation;   ///< Version of the content; 0: none was ever published (empty file).
  Checksum root;           ///< Content root of that version (cache::Manifest::Root).
  bool has_xattr = false;  ///< False saves asking for extended attributes.
  std::string symlink_target;

  bool operator==(const Attributes&) const = default;
};

/// One name in a directory.
struct DirectoryEntry {
  std::string name;
  InodeId inode;
  FileType type = FileType::kRegular;
  std::optional<Attributes> attributes;  ///< If asked for.
};

/// A place that holds one whole version of a file.
struct Location {
  CampusId campus;
  NodeId node;  ///< 0: the campus's store; else that node's cache, the only holder so far.
  Generation generation;
  bool verified = false;  ///< Read back and checked against the manifest after it was written.
  bool operator==(const Location&) const = default;
};

/// What a directory's subtree holds: one point read, however many files there are.
struct Totals {
  uint64_t files = 0;                         ///< Inodes other than directories, by primary parent.
  uint64_t directories = 0;                   ///< Without the directory itself.
  uint64_t bytes = 0;                         ///< Sum of sizes of regular files.
  uint64_t conflicts = 0;                     ///< Names that a merge gave.
  std::map<CampusId, uint64_t> campus_bytes;  ///< Bytes of current versions complete at a campus.
  bool operator==(const Totals&) const = default;
};

/// Who asks. Checked again on the hub; root (uid 0) may do all.
struct Credentials {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;  ///< Supplementary groups.
};

/// A campus or node that joined.
struct Member {
  CampusId campus;
  NodeId node;  ///< 0 for a campus (its hub).
  std::string name;
  std::vector<std::string> addresses;  ///< host:port of a hub, as it advertised.
};

}  // namespace quadfs::metadata
