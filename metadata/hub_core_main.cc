#include "metadata/execute.h"
#include "metadata/hub_core.h"
#include "metadata/hub_rows.h"
#include "metadata/merge.h"

// Main's side of HubCore: what branches did is merged here, and leases are given.

namespace quadfs::metadata {

Result<uint64_t> HubCore::Merge(CampusId campus, const std::vector<LogEntry>& entries) {
  uint64_t sequence = 0;
  uint64_t merged = 0;
  std::optional<Error> failure;
  {
    MutexLock lock(mutex_);
    if (broken_) return *broken_;
    merged = QUADFS_TRY(ReadNumber(*store_, MergedKey(campus), 0));
    for (const LogEntry& pending : entries) {
      if (pending.campus_op <= merged) continue;
      auto done = MergeOne(campus, pending);
      if (!done.ok()) {
        failure = std::move(done).error();
        break;
      }
      sequence = *done;
      merged = pending.campus_op;
      global_ = sequence;
    }
  }
  // What was merged before a failure is committed all the same.
  if (sequence != 0) {
    if (auto finished = Finish(sequence); !finished.ok()) return std::move(finished).error();
  }
  if (failure) return *failure;
  return merged;
}

Result<uint64_t> HubCore::MergeOne(CampusId campus, const LogEntry& pending) {
  const bool leased = QUADFS_TRY(WasLeased(campus, pending));
  quadfs::metadata::Merged decided = QUADFS_TRY(quadfs::metadata::Merge(*store_, pending));
  const auto verdict = static_cast<Verdict>(decided.verdict);
  if (leased && verdict != Verdict::kOk && verdict != Verdict::kAlready) ++lease_violations_;
  LogEntry entry = pending;
  entry.campus = campus;
  entry.seen.clear();
  entry.operation.reset();
  entry.verdict = decided.verdict;
  entry.rows = std::move(decided.rows);
  return Commit(entry, {{MergedKey(campus), NumberValue(pending.campus_op)}});
}

Result<bool> HubCore::WasLeased(CampusId campus, const LogEntry& pending) const {
  if (!pending.operation) return false;
  const auto needs = NeedsOf(*store_, *pending.operation);
  if (!needs.ok()) return false;  // Its directory is gone here: then it was not leased.
  for (const InodeId directory : needs->directories) {
    const auto holder = QUADFS_TRY(LeaseOf(directory));
    if (!holder || *holder != campus) return false;
  }
  return true;
}

Result<uint64_t> HubCore::Merged(CampusId campus) const {
  return ReadNumber(*store_, MergedKey(campus), 0);
}

Result<void> HubCore::SetLeases(
    const std::vector<std::pair<InodeId, std::optional<CampusId>>>& leases) {
  uint64_t sequence = 0;
  {
    MutexLock lock(mutex_);
    if (broken_) return *broken_;
    LogEntry entry;
    entry.verdict = static_cast<uint8_t>(Verdict::kOk);
    for (const auto& [directory, campus] : leases) {
      std::optional<std::string> value;
      if (campus) value = EncodeLease({*campus, Epoch(1), 0});
      entry.rows.push_back({LeaseKey(directory), std::move(value)});
    }
    sequence = QUADFS_TRY(Commit(entry, {}));
    global_ = sequence;
  }
  return Finish(sequence);
}

Result<std::optional<CampusId>> HubCore::LeaseOf(InodeId directory) const {
  const auto row = QUADFS_TRY(store_->Read(LeaseKey(directory)));
  std::optional<CampusId> campus;
  if (row) {
    const Lease lease = QUADFS_TRY(DecodeLease(*row));
    if (lease.campus) campus = lease.campus;
  }
  return campus;
}

uint64_t HubCore::lease_count() const {
  uint64_t count = 0;
  (void)store_->ScanPrefix(FamilyPrefix(Family::kLease), {},
                           [&](std::string_view, std::string_view) { return ++count < 100000; });
  return count;
}

}  // namespace quadfs::metadata
