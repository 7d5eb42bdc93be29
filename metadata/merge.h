#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "metadata/codec.h"
#include "metadata/row_store.h"

namespace quadfs::metadata {

/// What main made of an operation. The numbers are stored and travel: frozen.
enum class Verdict : uint8_t {
  kPending = 0,       ///< Main has not answered.
  kOk = 1,            ///< As its origin did it, or as it would have done it here.
  kAlready = 2,       ///< What it wanted is so already; nothing changed.
  kRenamed = 3,       ///< Done under a conflict name.
  kMerged = 4,        ///< A directory made on both sides became one.
  kForked = 5,        ///< Its content is in a conflict copy.
  kResurrected = 6,   ///< What it needed had been removed and is back.
  kVoidChanged = 7,   ///< Not done: the other side changed what it would remove.
  kVoidMoved = 8,     ///< Not done: the other side moved it.
  kVoidNotEmpty = 9,  ///< Not done: the directory has entries.
  kVoidLoop = 10,     ///< Not done: a directory would be inside itself.
  kVoidMerged = 11,   ///< Not done: the directory has become one with another.
  kVoidRefused = 12,  ///< Not done: it makes no sense on the state as it is.
};
/// Stable lower-case name, such as "forked".
std::string_view VerdictName(uint8_t verdict);
/// True if nothing needs to be reported to the user.
bool IsQuiet(uint8_t verdict);

struct Merged {
  std::vector<RowChange> rows;  ///< Relative to `global`; in key order, each once.
  uint8_t verdict = 0;          ///< A Verdict.
};

/// Decides, at main, over an operation that a campus has already shown to its users.
///
/// If every row it saw is still so, its rows hold as they are. Else the rules of the design's
/// § 4.6: who was first in the log keeps the name, nothing is overwritten or removed in a version
/// its remover had not seen, a published version is never lost. Deterministic, reads only.
/// `pending` holds the operation and what it saw. Errors: kCorruption, kIo.
Result<Merged> Merge(const RowReader& global, const LogEntry& pending);

}  // namespace quadfs::metadata
