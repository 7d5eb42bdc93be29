#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "metadata/operation.h"
#include "metadata/row_store.h"

namespace quadfs::metadata {

/// What an operation does to the state, and what it took for granted.
struct Effects {
  std::vector<RowChange> rows;  ///< In key order, each row once; no total rows.
  /// RowHash of each row it relied on or changes, before the operation; 0: there was none.
  std::vector<std::pair<RowKey, uint64_t>> seen;
  OpResult result;
};

/// Decides an operation against the state, with all permission checks, as ext4 would.
/// Pure: reads only, the same answer for the same state. An operation that changes nothing gives
/// no rows. `executing`: the campus that accepts it.
/// Errors: those of the system call it stands for; kIo and kCorruption of the state.
Result<Effects> Execute(const RowReader& state, const Operation& operation, CampusId executing);

/// Rows of an empty tree: the root directory, owned by uid and gid 0, mode 0755.
std::vector<RowChange> EmptyTree(int64_t now_ns);

/// Directories whose leases an operation needs.
struct LeaseNeeds {
  std::vector<InodeId> directories;  ///< Each once, ascending.
  bool at_main = false;  ///< A directory to another parent, a fact, a member: main executes it.
};
/// Names that do not exist ask for the lease of the directory that would hold them.
Result<LeaseNeeds> NeedsOf(const RowReader& state, const Operation& operation);

}  // namespace quadfs::metadata
