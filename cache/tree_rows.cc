#include "cache/tree_rows.h"

namespace quadfs::cache {
namespace {

constexpr uint8_t kVersion = 1;
constexpr uint64_t kLargestFile = uint64_t{1} << 50;

Error Damaged() { return Error(ErrorCode::kCorruption, "damaged row of the store's index"); }

void PutPlace(RowWriter& out, const Place& place) {
  out.U64(place.directory);
  out.U8(static_cast<uint8_t>(place.name.size()));
  out.Raw(place.name);
}

Place TakePlace(RowReader& in) {
  Place place;
  place.directory = in.U64();
  place.name = std::string(in.Raw(in.U8()));
  return place;
}

void PutHeld(RowWriter& out, const HeldRow& row) {
  out.U64(row.generation.value);
  PutPlace(out, row.place);
  out.U64(row.size_bytes);
  out.Sum(row.root);
  row.signature.Encode(out);
  out.U8(row.manifest ? 1 : 0);
  if (row.manifest) {
    for (const Checksum& block : *row.manifest) out.Sum(block);
  }
}

bool TakeHeld(RowReader& in, HeldRow& row) {
  row.generation = Generation(in.U64());
  row.place = TakePlace(in);
  row.size_bytes = in.U64();
  row.root = in.Sum();
  row.signature = StatSignature::Decode(in);
  if (in.U8() != 0) {
    if (BlockCount(row.size_bytes) > HeldRow::kInlineBlocks) return false;
    row.manifest.emplace(BlockCount(row.size_bytes));
    for (Checksum& block : *row.manifest) block = in.Sum();
  }
  return in.ok();
}

// A reader behind the version byte; an Error if the row is damaged or newer.
Result<RowReader> Start(std::string_view bytes) {
  RowReader in = RowReader::Checked(bytes);
  if (!in.ok()) return Damaged();
  if (const uint8_t version = in.U8(); version != kVersion) {
    return Error(ErrorCode::kInvalidArgument,
                 "store index of format " + std::to_string(version) + ": update quadfs");
  }
  return in;
}

}  // namespace

std::string HeldRow::Encode() const {
  RowWriter out;
  out.U8(kVersion);
  PutHeld(out, *this);
  return std::move(out).Finish();
}

Result<HeldRow> HeldRow::Decode(std::string_view bytes) {
  RowReader in = QUADFS_TRY(Start(bytes));
  HeldRow row;
  if (!TakeHeld(in, row) || in.left() != 0) return Damaged();
  return row;
}

std::string IncomingRow::Encode() const {
  RowWriter out;
  out.U8(kVersion);
  out.Sum(root);
  out.U64(size_bytes);
  out.U64(file_inode);
  durable.Encode(out);
  out.U8(becomes ? 1 : 0);
  if (becomes) PutHeld(out, *becomes);
  old_signature.Encode(out);
  PutPlace(out, old_place);
  return std::move(out).Finish();
}

Result<IncomingRow> IncomingRow::Decode(std::string_view bytes) {
  RowReader in = QUADFS_TRY(Start(bytes));
  IncomingRow row;
  row.root = in.Sum();
  row.size_bytes = in.U64();
  row.file_inode = in.U64();
  if (!in.ok() || row.size_bytes > kLargestFile) return Damaged();
  bool ok = true;
  row.durable = BlockBitmap::Decode(in, BlockCount(row.size_bytes), ok);
  if (in.U8() != 0) ok = TakeHeld(in, row.becomes.emplace()) && ok;
  row.old_signature = StatSignature::Decode(in);
  row.old_place = TakePlace(in);
  if (!ok || !in.ok() || in.left() != 0) return Damaged();
  return row;
}

std::string MoveRow::Encode() const {
  RowWriter out;
  out.U8(kVersion);
  PutPlace(out, from);
  PutPlace(out, to);
  out.U64(file_inode);
  out.U64(replaced_directory);
  return std::move(out).Finish();
}

Result<MoveRow> MoveRow::Decode(std::string_view bytes) {
  RowReader in = QUADFS_TRY(Start(bytes));
  MoveRow row;
  row.from = TakePlace(in);
  row.to = TakePlace(in);
  row.file_inode = in.U64();
  row.replaced_directory = in.U64();
  if (!in.ok() || in.left() != 0) return Damaged();
  return row;
}

std::string EncodePlace(const Place& place) {
  RowWriter out;
  out.U8(kVersion);
  PutPlace(out, place);
  return std::move(out).Finish();
}

Result<Place> DecodePlace(std::string_view bytes) {
  RowReader in = QUADFS_TRY(Start(bytes));
  Place place = TakePlace(in);
  if (!in.ok() || in.left() != 0) return Damaged();
  return place;
}

}  // namespace quadfs::cache
