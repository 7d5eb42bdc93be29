#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metadata/format.h"
#include "metadata/operation.h"

namespace quadfs::metadata {

/// One entry of a log: what was done, by whom, and the rows it changed.
struct LogEntry {
  SequenceNumber sequence;
  Epoch epoch;
  CampusId campus;         ///< Origin; 0: main's own bookkeeping.
  uint64_t campus_op = 0;  ///< Number of the operation at its campus.
  NodeId node;             ///< 0: the hub's own.
  uint64_t node_op = 0;    ///< Number of the operation at its node.
  SequenceNumber base;     ///< Global sequence the origin had applied when it accepted it.
  OpKind kind = OpKind::kCreate;
  uint8_t verdict = 0;               ///< See merge.h.
  std::vector<InodeId> directories;  ///< Directories touched.
  std::vector<RowChange> rows;
  std::vector<std::pair<RowKey, uint64_t>> seen;  ///< While pending.
  std::optional<Operation> operation;             ///< While pending: for the merge.
};

/// Everything that travels or is stored as a message, as protobuf with frozen field numbers.
/// Decoders bound every count and length and refuse anything else with kCorruption.
std::string Encode(const LogEntry& entry);
Result<LogEntry> DecodeLogEntry(std::string_view bytes);
std::string Encode(const Operation& operation);
Result<Operation> DecodeOperation(std::string_view bytes);
std::string Encode(const OpResult& result);
Result<OpResult> DecodeOpResult(std::string_view bytes);
std::string Encode(const Attributes& attributes);
Result<Attributes> DecodeAttributes(std::string_view bytes);
std::string Encode(const RowChange& change);
Result<RowChange> DecodeRowChange(std::string_view bytes);

inline constexpr size_t kMaxEntryBytes = size_t{4} << 20;
inline constexpr size_t kMaxEntryRows = 65536;
inline constexpr size_t kMaxGroups = 65536;

}  // namespace quadfs::metadata
