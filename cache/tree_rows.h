#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/block_bitmap.h"
#include "cache/file_io.h"
#include "cache/manifest.h"
#include "transport/base/ids.h"
#include "transport/base/result.h"

namespace quadfs::cache {

/// Prefixes of the store's keys: frozen. Every value: version u8, fields, CRC-32C.
inline constexpr std::string_view kDirectoryPrefix = "store.d.";  ///< + directory id.
inline constexpr std::string_view kHeldPrefix = "store.h.";       ///< + inode.
inline constexpr std::string_view kIncomingPrefix = "store.i.";   ///< + inode, generation.
inline constexpr std::string_view kFileMovePrefix = "store.x.";   ///< + inode: a move under way.
inline constexpr std::string_view kDirectoryMovePrefix = "store.y.";  ///< + directory id.
inline constexpr std::string_view kNextDirectoryKey = "store.n.next-directory";

/// Where a name stands: rows speak of directories by number, so that a rename of one changes one
/// row.
struct Place {
  uint64_t directory = 0;
  std::string name;
  bool operator==(const Place&) const = default;
};

/// A held file. The signature's ctime is not kept: renames change it.
struct HeldRow {
  static constexpr uint64_t kInlineBlocks = 32;
  Generation generation;
  Place place;
  uint64_t size_bytes = 0;
  Checksum root;
  StatSignature signature;
  std::optional<std::vector<Checksum>> manifest;  ///< Else `.quadfs/manifests/` has it.

  static std::string Key(InodeId inode) {
    return std::string(kHeldPrefix) + KeyNumber(inode.value);
  }
  std::string Encode() const;
  static Result<HeldRow> Decode(std::string_view bytes);
};

/// An upload: what of it is durable and, from just before its rename on, where it goes.
struct IncomingRow {
  Checksum root;
  uint64_t size_bytes = 0;
  uint64_t file_inode = 0;  ///< Of the file in `.quadfs/incoming/`.
  BlockBitmap durable;
  std::optional<HeldRow> becomes;  ///< Being committed as this.
  StatSignature old_signature;     ///< Of the older version's file that it replaces, if any,
  Place old_place;                 ///< and where that stands.

  static std::string Key(const ObjectId& object) {
    return std::string(kIncomingPrefix) + KeyNumber(object.inode.value) +
           KeyNumber(object.generation.value);
  }
  std::string Encode() const;
  static Result<IncomingRow> Decode(std::string_view bytes);
};

/// A rename that is about to happen: afterwards the file or directory stands at `to`.
struct MoveRow {
  Place from, to;
  uint64_t file_inode = 0;          ///< What is moved.
  uint64_t replaced_directory = 0;  ///< Id of an empty directory in the way, if it had one.
  std::string Encode() const;
  static Result<MoveRow> Decode(std::string_view bytes);
};

std::string EncodePlace(const Place& place);
Result<Place> DecodePlace(std::string_view bytes);

}  // namespace quadfs::cache
