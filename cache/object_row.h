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

/// Names a row: a version's, or that of an inode's one unsealed dirty file.
struct RowKey {
  InodeId inode;
  Generation generation;  ///< 0 if `dirty`.
  bool dirty = false;

  static RowKey Of(const ObjectId& object) { return {object.inode, object.generation, false}; }
  static RowKey OfDirty(InodeId inode) { return {inode, Generation(), true}; }
  auto operator<=>(const RowKey&) const = default;
  std::string Encode() const;
  static std::optional<RowKey> Decode(std::string_view key);
};

/// Prefixes of the cache's keys: frozen.
inline constexpr std::string_view kObjectPrefix = "cache.o.";    ///< + inode, generation.
inline constexpr std::string_view kDirtyPrefix = "cache.d.";     ///< + inode.
inline constexpr std::string_view kManifestPrefix = "cache.m.";  ///< + slot: a large manifest.
inline constexpr std::string_view kNextSlotKey = "cache.n.next-slot";
inline constexpr std::string_view kIdentityKey = "cache.n.identity";
inline std::string ManifestKey(uint64_t slot) {
  return std::string(kManifestPrefix) + KeyNumber(slot);
}

/// What the index knows of one object. On disk: version, fields, CRC-32C; see object_row.cc.
struct ObjectRow {
  enum Flag : uint8_t {
    kComplete = 1,  ///< All blocks durable and checked; `signature` counts.
    kDirty = 2,     ///< A program may be changing it.
    kUnsaved = 4,   ///< No other place has it.
    kPinned = 8,
    kSealed = 16,        ///< `id` is a published version, even if dirty.
    kUnsynced = 32,      ///< Data may be in the page cache of `boot_id` only.
    kPartialDirty = 64,  ///< Dirty, and blocks of the old version are still to be filled.
    kManifestRow = 128,  ///< The manifest has a row of its own.
  };
  /// A manifest of so many blocks is kept in the row itself: a small object is one write.
  static constexpr uint64_t kInlineBlocks = 32;

  ObjectId id;
  uint64_t slot = 0;
  uint64_t size_bytes = 0;
  Checksum root;
  uint8_t flags = 0;
  uint64_t last_use = 0;
  uint64_t fill_limit = 0;  ///< kPartialDirty: bytes of the old version that still count.
  StatSignature signature;
  BlockBitmap present;  ///< Durable; one bit for each block of `size_bytes`.
  BlockBitmap written;  ///< kPartialDirty: blocks that are present in the page cache of `boot_id`.
  std::string boot_id;
  std::optional<std::vector<Checksum>> manifest;

  bool Has(Flag flag) const { return (flags & flag) != 0; }
  /// The key under which a row with these flags stands.
  RowKey key() const {
    return Has(kDirty) && !Has(kSealed) ? RowKey::OfDirty(id.inode) : RowKey::Of(id);
  }
  std::string Encode() const;
  /// Errors: kCorruption; kInvalidArgument (a newer format).
  static Result<ObjectRow> Decode(std::string_view bytes);
};

}  // namespace quadfs::cache
