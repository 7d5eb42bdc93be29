#include "metadata/hub_core.h"
#include "metadata/hub_rows.h"
#include "metadata/snapshot_stream.h"

// A branch's side of HubCore: provisional rows over the global ones (design § 4.2).

namespace quadfs::metadata {

Result<void> HubCore::Shadow(const std::vector<RowChange>& rows, RowOverlay& engine) const {
  for (const RowChange& row : rows) {
    auto shadow = QUADFS_TRY(FindShadow(engine, row.key));
    if (!shadow) shadow = ShadowRow{0, QUADFS_TRY(store_->Read(row.key))};
    ++shadow->count;
    engine.Set(ShadowKey(row.key), EncodeShadow(*shadow));
  }
  return {};
}

Result<std::vector<RowChange>> HubCore::ApplyOne(const LogEntry& entry, RowOverlay& engine,
                                                 uint64_t& answered) const {
  std::vector<RowChange> visible;
  for (const RowChange& row : entry.rows) {
    auto shadow = QUADFS_TRY(FindShadow(engine, row.key));
    if (shadow) {
      shadow->value = row.value;
      engine.Set(ShadowKey(row.key), EncodeShadow(*shadow));
    } else {
      visible.push_back(row);
    }
  }
  answered = 0;
  if (entry.campus != options_.campus || entry.campus_op == 0) return visible;
  const RowKey key = SequenceKey(Family::kPending, entry.campus_op);
  const auto bytes = QUADFS_TRY(engine.Read(key));
  if (!bytes) return visible;
  const LogEntry pending = QUADFS_TRY(DecodeLogEntry(*bytes));
  for (const RowChange& row : pending.rows) {
    auto shadow = QUADFS_TRY(FindShadow(engine, row.key));
    if (!shadow) return Error(ErrorCode::kCorruption, "a shadow row is missing");
    if (--shadow->count > 0) {
      engine.Set(ShadowKey(row.key), EncodeShadow(*shadow));
      continue;
    }
    engine.Set(ShadowKey(row.key), std::nullopt);
    // Usually main decided what we show already: then there is nothing to reveal.
    if (QUADFS_TRY(store_->Read(row.key)) != shadow->value)
      visible.push_back({row.key, shadow->value});
  }
  engine.Set(key, std::nullopt);
  answered = entry.campus_op;
  return visible;
}

Result<void> HubCore::ApplyGlobal(const std::vector<std::string>& entries) {
  {
    MutexLock lock(mutex_);
    if (broken_) return *broken_;
    for (const std::string& bytes : entries) {
      const LogEntry entry = QUADFS_TRY(DecodeLogEntry(bytes));
      if (entry.sequence.value != global_ + 1) {
        return Error(ErrorCode::kStale, "the log from main has a gap");
      }
      RowOverlay engine(*store_);
      uint64_t answered = 0;
      LogEntry shown = entry;
      shown.rows = QUADFS_TRY(ApplyOne(entry, engine, answered));
      const Checksum chain = ChainChecksum(global_chain_, std::as_bytes(std::span(bytes)));
      engine.Set(MetaKey("global"), PositionValue(entry.sequence.value, chain));
      engine.Set(SequenceKey(Family::kLog, entry.sequence.value), ChainBytes(chain) + bytes);
      const uint64_t sequence = QUADFS_TRY(Commit(shown, engine.Take()));
      // A replica may lose its newest entries in a power cut: main has them. So they are shown to
      // nodes at once, and before anyone who waits for the position goes on.
      view_log_->Release(sequence);
      global_chain_ = chain;
      global_ = entry.sequence.value;
      if (answered != 0 && pending_ > 0) --pending_;
    }
  }
  return {};
}

void HubCore::SetGlobalChain(const Checksum& chain) {
  MutexLock lock(mutex_);
  global_chain_ = chain;
}

Result<void> HubCore::AdoptSnapshot(transport::Client& main) {
  if (global_ != 0) {
    return Error(ErrorCode::kStale,
                 "main's log is not the one this hub's database (" + options_.directory +
                     ") came from: stop quadfsd here, move that directory away, start it again");
  }
  const SnapshotPosition at = QUADFS_TRY(
      ReceiveSnapshot(main, options_.cluster, *store_, Deadline::After(std::chrono::hours(2))));
  MutexLock lock(mutex_);
  auto written = store_->Write({{MetaKey("global"), PositionValue(at.position, at.chain)}}, true);
  if (!written.ok()) return written;
  totals_.Clear();
  global_chain_ = at.chain;
  global_ = at.position;
  changes_.Post([](ChangeListener& listener) { listener.OnReset(); });
  return {};
}

Result<std::vector<std::pair<uint64_t, std::string>>> HubCore::Pending(uint64_t after, size_t limit,
                                                                       size_t max_bytes) const {
  std::vector<std::pair<uint64_t, std::string>> found;
  size_t bytes = 0;
  const auto scanned =
      store_->ScanPrefix(FamilyPrefix(Family::kPending), SequenceKey(Family::kPending, after + 1),
                         [&](std::string_view key, std::string_view value) {
                           found.emplace_back(*ParseNumberKey(key), std::string(value));
                           bytes += value.size();
                           return found.size() < limit && bytes < max_bytes;
                         });
  if (!scanned.ok()) return scanned.error();
  return found;
}

void HubCore::SkipCampusOps(uint64_t merged) {
  if (campus_op_ >= merged) return;
  MutexLock lock(mutex_);
  if (campus_op_ < merged) campus_op_ = merged;
}

}  // namespace quadfs::metadata
