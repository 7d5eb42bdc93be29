#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "metadata/hub_rows.h"
#include "metadata/row_store.h"

namespace quadfs::metadata {

/// A node's rows that show what it did by itself and the hub's log does not show yet.
///
/// Under each lies the value of the hub's log (a shadow row, also kept in the store, so that a
/// restart can go back to it); entries of the log change that, until the operations on top are
/// answered. The same rule as a branch hub's towards main (design § 4.2).
/// Threads: none of its own; the caller has one lock around it and the writing of what it returns.
class ProvisionalRows {
 public:
  /// Lays an operation's rows over `state`; adds the shadow rows to write.
  Result<void> Cover(const RowReader& state, uint64_t node_op, const std::vector<RowChange>& rows,
                     std::vector<RowChange>& batch);
  /// Of a log entry's rows those that show; adds the shadow rows to write.
  std::vector<RowChange> Visible(const std::vector<RowChange>& rows, std::vector<RowChange>& batch);
  /// The operation is answered. Returns the rows that look different without it.
  Result<std::vector<RowChange>> Reveal(const RowReader& state, uint64_t node_op,
                                        std::vector<RowChange>& batch);
  bool Contains(uint64_t node_op) const { return operations_.contains(node_op); }
  void Clear();

  /// What an earlier run left in a store: the rows as the log says, and its shadows gone.
  static Result<std::vector<RowChange>> Restored(const RowReader& store,
                                                 std::vector<RowChange>& batch);

 private:
  std::unordered_map<RowKey, ShadowRow> shadows_;
  std::map<uint64_t, std::vector<RowKey>> operations_;  ///< Number → rows it changed.
};

}  // namespace quadfs::metadata
