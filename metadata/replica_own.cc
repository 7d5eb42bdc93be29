#include "metadata/codec.h"
#include "metadata/replica_feed.h"

// What a node does by itself, on top of what its hub's log says.

namespace quadfs::metadata {

Result<void> ReplicaFeed::Restore(RowStore& store) {
  MutexLock rows_lock(rows_mutex_);
  std::vector<RowChange> engine;
  const auto rows = QUADFS_TRY(ProvisionalRows::Restored(store, engine));
  if (rows.empty() && engine.empty()) return {};
  StateWriter state(store, totals_);
  if (auto set = state.SetAll(rows); !set.ok()) return set;
  auto batch = state.Take();
  batch.insert(batch.end(), engine.begin(), engine.end());
  return store.Write(batch, false);
}

Result<Change> ReplicaFeed::Show(RowStore& store, uint64_t node_op,
                                 const std::vector<RowChange>& rows) {
  std::vector<RowChange> engine;
  Change change = QUADFS_TRY(DescribeChange(store, rows));
  QUADFS_TRY(provisional_.Cover(store, node_op, rows, engine));
  damaged_ = true;  // Unless all of it gets written.
  StateWriter state(store, totals_);
  QUADFS_TRY(state.SetAll(rows));
  std::vector<RowChange> batch = state.Take();
  batch.insert(batch.end(), std::make_move_iterator(engine.begin()),
               std::make_move_iterator(engine.end()));
  QUADFS_TRY(store.Write(batch, false));
  damaged_ = false;
  change.view = view_.Position();
  change.origin = options_.node;
  change.own = true;
  change.removed.clear();  // Bytes go when the hub knows it too.
  return change;
}

Result<std::optional<OpResult>> ReplicaFeed::ExecuteHere(const Operation& operation,
                                                         Delegations& delegations,
                                                         const Note& note) {
  std::optional<OpResult> result;
  MutexLock rows_lock(rows_mutex_);
  if (damaged_) return result;
  const auto replica = view_.Current();
  RowStore& store = *replica->store;
  const LeaseNeeds needs = QUADFS_TRY(metadata::NeedsOf(store, operation));
  if (needs.at_main || !delegations.Cover(needs.directories)) return result;
  auto effects = QUADFS_TRY(Execute(store, operation, options_.campus));
  result = std::move(effects.result);
  result->view = view_.Position();
  if (effects.rows.empty()) return result;
  const uint64_t node_op = QUADFS_TRY(note(operation));
  // From here on it is done, whatever becomes of showing it.
  auto change = Show(store, node_op, effects.rows);
  if (!change.ok()) return std::move(change).error();
  if (operation.kind == OpKind::kCreate && operation.type == FileType::kDirectory) {
    delegations.Made(operation.inode);
  }
  changes_.PostChange(*std::move(change));
  return result;
}

void ReplicaFeed::Replay(uint64_t node_op, const Operation& operation) {
  MutexLock rows_lock(rows_mutex_);
  if (damaged_) return;
  const auto replica = view_.Current();
  auto effects = Execute(*replica->store, operation, options_.campus);
  if (!effects.ok() || effects->rows.empty()) return;  // The log shows it already.
  auto change = Show(*replica->store, node_op, effects->rows);
  if (change.ok()) changes_.PostChange(*std::move(change));
}

Result<void> ReplicaFeed::Reveal(uint64_t node_op) {
  if (!provisional_.Contains(node_op)) return {};
  const auto replica = view_.Current();
  std::vector<RowChange> engine;
  damaged_ = true;
  const auto rows = QUADFS_TRY(provisional_.Reveal(*replica->store, node_op, engine));
  Change change = QUADFS_TRY(DescribeChange(*replica->store, rows));
  StateWriter state(*replica->store, totals_);
  QUADFS_TRY(state.SetAll(rows));
  auto batch = state.Take();
  batch.insert(batch.end(), engine.begin(), engine.end());
  QUADFS_TRY(replica->store->Write(batch, false));
  damaged_ = false;
  change.view = view_.Position();
  changes_.PostChange(std::move(change));
  return {};
}

void ReplicaFeed::Settle(uint64_t node_op, uint64_t view) {
  MutexLock rows_lock(rows_mutex_);
  if (!provisional_.Contains(node_op)) return;
  if (view_.Position().value < view) {
    to_settle_[view].push_back(node_op);
    return;
  }
  (void)Reveal(node_op);
}

void ReplicaFeed::Undo(uint64_t node_op) {
  MutexLock rows_lock(rows_mutex_);
  (void)Reveal(node_op);
}

Result<LeaseNeeds> ReplicaFeed::NeedsOf(const Operation& operation) const {
  return metadata::NeedsOf(*view_.Current()->store, operation);
}

void ReplicaFeed::Quiesce() const { MutexLock rows_lock(rows_mutex_); }

}  // namespace quadfs::metadata
