#include "cache/object_row.h"

namespace quadfs::cache {
namespace {

// Format 1: version u8, flags u8, inode, generation, slot, size, last use u64, root 16 bytes,
// signature 4 x u64, fill limit u64, present bitmap, boot id (length u8, bytes), written bitmap,
// inline manifest (0 or 1 u8, checksums), CRC-32C. Numbers are little-endian.
constexpr uint8_t kVersion = 1;
constexpr uint64_t kLargestFile = uint64_t{1} << 50;  // Bounds the bitmap that a row can ask for.

}  // namespace

std::string RowKey::Encode() const {
  if (dirty) return std::string(kDirtyPrefix) + KeyNumber(inode.value);
  return std::string(kObjectPrefix) + KeyNumber(inode.value) + KeyNumber(generation.value);
}

std::optional<RowKey> RowKey::Decode(std::string_view key) {
  const size_t prefix = kObjectPrefix.size();
  if (key.starts_with(kObjectPrefix) && key.size() == prefix + 16) {
    return RowKey{InodeId(KeyNumberAt(key, prefix)), Generation(KeyNumberAt(key, prefix + 8)),
                  false};
  }
  if (key.starts_with(kDirtyPrefix) && key.size() == prefix + 8) {
    return OfDirty(InodeId(KeyNumberAt(key, prefix)));
  }
  return std::nullopt;
}

std::string ObjectRow::Encode() const {
  RowWriter out;
  out.U8(kVersion);
  out.U8(flags);
  out.U64(id.inode.value);
  out.U64(id.generation.value);
  out.U64(slot);
  out.U64(size_bytes);
  out.U64(last_use);
  out.Sum(root);
  signature.Encode(out);
  out.U64(fill_limit);
  present.Encode(out);
  out.U8(static_cast<uint8_t>(boot_id.size()));
  out.Raw(boot_id);
  written.Encode(out);
  out.U8(manifest ? 1 : 0);
  if (manifest) {
    for (const Checksum& block : *manifest) out.Sum(block);
  }
  return std::move(out).Finish();
}

Result<ObjectRow> ObjectRow::Decode(std::string_view bytes) {
  const auto damaged = [] {
    return Error(ErrorCode::kCorruption, "damaged row of a cached object");
  };
  RowReader in = RowReader::Checked(bytes);
  if (!in.ok()) return damaged();
  if (const uint8_t version = in.U8(); version != kVersion) {
    return Error(ErrorCode::kInvalidArgument,
                 "cache index of format " + std::to_string(version) + ": update quadfs");
  }
  ObjectRow row;
  row.flags = in.U8();
  row.id.inode = InodeId(in.U64());
  row.id.generation = Generation(in.U64());
  row.slot = in.U64();
  row.size_bytes = in.U64();
  row.last_use = in.U64();
  row.root = in.Sum();
  row.signature = StatSignature::Decode(in);
  row.fill_limit = in.U64();
  if (!in.ok() || row.size_bytes > kLargestFile) return damaged();
  const uint64_t blocks = BlockCount(row.size_bytes);
  bool ok = true;
  row.present = BlockBitmap::Decode(in, blocks, ok);
  row.boot_id = std::string(in.Raw(in.U8()));
  row.written = BlockBitmap::Decode(in, blocks, ok);
  if (in.U8() != 0) {
    if (in.left() != blocks * Checksum{}.bytes.size()) return damaged();
    row.manifest.emplace(blocks);
    for (Checksum& block : *row.manifest) block = in.Sum();
  }
  if (!ok || !in.ok() || in.left() != 0) return damaged();
  return row;
}

}  // namespace quadfs::cache
