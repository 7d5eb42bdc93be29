#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "metadata/format.h"
#include "metadata/row_store.h"
#include "transport/base/checksum.h"

namespace quadfs::metadata {

/// The engines' own rows: never part of the replicated state. Shadow rows also at a node.
///
/// | family  | key                                | value                                        |
/// |---------|------------------------------------|----------------------------------------------|
/// | shadow  | key of the state row               | version 1, count 4, present 1, global value  |
/// | origin  | 'r', campus 8, node 8, node op 8   | error code 1 (0: none), campus op 8, answer  |
/// | origin  | 'c', campus 8                      | last campus operation main has merged        |
/// | origin  | 'd', node 8                        | none: the node may hold delegations          |

std::string ChainBytes(const Checksum& chain);
RowKey ShadowKey(const RowKey& row);
RowKey AnswerKey(CampusId campus, NodeId node, uint64_t node_op);
RowKey MergedKey(CampusId campus);
RowKey HolderKey(NodeId node);

std::string NumberValue(uint64_t number);
/// `absent`: what a missing row stands for. Errors: kCorruption, kIo.
Result<uint64_t> ReadNumber(const RowReader& rows, const RowKey& key, uint64_t absent);
/// Position in main's log with the chain there.
std::string PositionValue(uint64_t position, const Checksum& chain);

/// How many pending operations cover a state row, and its global value.
struct ShadowRow {
  uint32_t count = 0;
  std::optional<std::string> value;
};
std::string EncodeShadow(const ShadowRow& shadow);
Result<ShadowRow> DecodeShadow(std::string_view bytes);
Result<std::optional<ShadowRow>> FindShadow(const RowReader& rows, const RowKey& key);

}  // namespace quadfs::metadata
