#include "metadata/hub_rows.h"

#include "metadata/row_bytes.h"

namespace quadfs::metadata {

std::string ChainBytes(const Checksum& chain) {
  return {reinterpret_cast<const char*>(chain.bytes.data()), chain.bytes.size()};
}

RowKey ShadowKey(const RowKey& row) { return RowKey(1, static_cast<char>(Family::kShadow)) + row; }

RowKey AnswerKey(CampusId campus, NodeId node, uint64_t node_op) {
  RowEncoder key;
  key.Byte(static_cast<uint8_t>(Family::kOrigin));
  key.Byte('r');
  key.Big64(campus.value);
  key.Big64(node.value);
  key.Big64(node_op);
  return key.Take();
}

RowKey MergedKey(CampusId campus) {
  RowEncoder key;
  key.Byte(static_cast<uint8_t>(Family::kOrigin));
  key.Byte('c');
  key.Big64(campus.value);
  return key.Take();
}

RowKey HolderKey(NodeId node) {
  RowEncoder key;
  key.Byte(static_cast<uint8_t>(Family::kOrigin));
  key.Byte('d');
  key.Big64(node.value);
  return key.Take();
}

std::string NumberValue(uint64_t number) {
  RowEncoder value;
  value.Little(number);
  return value.Take();
}

Result<uint64_t> ReadNumber(const RowReader& rows, const RowKey& key, uint64_t absent) {
  const auto value = QUADFS_TRY(rows.Read(key));
  if (!value) return absent;
  RowDecoder row(*value);
  const auto number = row.Little<uint64_t>();
  if (!row.AtEnd()) return Error(ErrorCode::kCorruption, "a counter cannot be read");
  return number;
}

std::string EncodeShadow(const ShadowRow& shadow) {
  RowEncoder row;
  row.Byte(1);
  row.Little(shadow.count);
  row.Byte(shadow.value ? 1 : 0);
  if (shadow.value) row.Raw(*shadow.value);
  return row.Take();
}

Result<ShadowRow> DecodeShadow(std::string_view bytes) {
  RowDecoder row(bytes);
  ShadowRow shadow;
  const uint8_t version = row.Byte();
  shadow.count = row.Little<uint32_t>();
  const bool present = row.Byte() == 1;
  if (!row.ok() || version != 1 || shadow.count == 0) {
    return Error(ErrorCode::kCorruption, "a shadow row cannot be read");
  }
  if (present) shadow.value = std::string(row.Rest());
  return shadow;
}

Result<std::optional<ShadowRow>> FindShadow(const RowReader& rows, const RowKey& key) {
  const auto row = QUADFS_TRY(rows.Read(ShadowKey(key)));
  if (!row) return std::optional<ShadowRow>();
  return std::optional<ShadowRow>(QUADFS_TRY(DecodeShadow(*row)));
}

std::string PositionValue(uint64_t position, const Checksum& chain) {
  RowEncoder row;
  row.Little(position);
  row.Raw(ChainBytes(chain));
  return row.Take();
}

}  // namespace quadfs::metadata
