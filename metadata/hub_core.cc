#include "metadata/hub_core.h"

#include <cstring>

#include "metadata/execute.h"
#include "metadata/merge.h"
#include "metadata/row_bytes.h"
#include "metadata/snapshot_stream.h"

namespace quadfs::metadata {
namespace {

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

/// A shadow row: how many pending operations cover the state row, and its global value.
struct ShadowRow {
  uint32_t count = 0;
  std::optional<std::string> value;
};

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

}  // namespace

Result<std::unique_ptr<HubCore>> HubCore::Open(const Options& options, ChangeQueue& changes) {
  std::unique_ptr<HubCore> core(new HubCore(options, changes));
  if (auto opened = core->Init(); !opened.ok()) return std::move(opened).error();
  return core;
}

Result<void> HubCore::Init() {
  RowStore::Options store;
  store.cluster = options_.cluster;
  store.block_cache_bytes = options_.block_cache_bytes;
  store_ = QUADFS_TRY(RowStore::Open(options_.directory, store));
  const auto campus = QUADFS_TRY(store_->Read(MetaKey("campus")));
  if (campus && *campus != NumberValue(options_.campus.value)) {
    return Error(ErrorCode::kInvalidArgument,
                 options_.directory + " belongs to another campus's hub");
  }
  if (!campus) {
    const auto written =
        store_->Write({{MetaKey("campus"), NumberValue(options_.campus.value)}}, true);
    if (!written.ok()) return written;
  }
  view_ = std::make_unique<RocksView>(*store_);
  sync_ = std::make_unique<GroupSync>(*store_);
  view_log_ =
      std::make_unique<SequenceLog>(*store_, options_.primary ? Family::kLog : Family::kView);
  if (auto opened = view_log_->Open(); !opened.ok()) return opened;
  view_->SetPosition(SequenceNumber(view_log_->last()));

  MutexLock lock(mutex_);
  campus_op_ = QUADFS_TRY(ReadNumber(*store_, MetaKey("campus_op"), 0));
  const auto scanned = store_->ScanPrefix(FamilyPrefix(Family::kPending), {},
                                          [&](std::string_view, std::string_view) {
                                            ++pending_;
                                            return true;
                                          });
  if (!scanned.ok()) return scanned;
  if (options_.primary) {
    global_ = view_log_->last();
  } else if (const auto row = QUADFS_TRY(store_->Read(MetaKey("global")))) {
    RowDecoder position(*row);
    global_ = position.Little<uint64_t>();
    const std::string_view chain = position.Raw(global_chain_.bytes.size());
    if (!position.AtEnd()) return Error(ErrorCode::kCorruption, "the position cannot be read");
    std::memcpy(global_chain_.bytes.data(), chain.data(), chain.size());
  }
  const auto root = QUADFS_TRY(store_->Read(InodeKey(kRootInode)));
  if (!root && options_.primary) {
    LogEntry entry;
    entry.verdict = static_cast<uint8_t>(Verdict::kOk);
    entry.rows = EmptyTree(Clock::System().WallNanoseconds());
    StateWriter state(*store_, totals_);
    if (auto set = state.SetAll(entry.rows); !set.ok()) return set;
    auto batch = state.Take();
    global_ = view_log_->Append(entry, batch);
    if (auto written = store_->Write(batch, true); !written.ok()) return written;
    view_log_->Release(global_);
    view_->SetPosition(SequenceNumber(global_));
  }
  return {};
}

uint64_t HubCore::global() const { return global_; }
Checksum HubCore::global_chain() const {
  MutexLock lock(mutex_);
  return options_.primary ? view_log_->chain() : global_chain_;
}
uint64_t HubCore::last_pending() const { return campus_op_; }
uint64_t HubCore::pending_count() const { return pending_; }

Result<std::optional<Result<OpResult>>> HubCore::FindAnswer(const OpOrigin& origin) const {
  std::optional<Result<OpResult>> answer;
  if (!origin.node) return answer;
  const auto row = QUADFS_TRY(store_->Read(AnswerKey(origin.campus, origin.node, origin.node_op)));
  if (!row) return answer;
  RowDecoder decoder(*row);
  const uint8_t code = decoder.Byte();
  decoder.Big64();
  const std::string rest(decoder.Rest());
  if (code == 0) {
    answer.emplace(QUADFS_TRY(DecodeOpResult(rest)));
  } else {
    answer.emplace(Error(ErrorCodeFromNumber(code), rest));
  }
  return answer;
}

Result<bool> HubCore::IsPending(const OpOrigin& origin) const {
  if (!origin.node || options_.primary) return false;
  const auto row = QUADFS_TRY(store_->Read(AnswerKey(origin.campus, origin.node, origin.node_op)));
  if (!row) return false;
  RowDecoder decoder(*row);
  decoder.Byte();
  const uint64_t campus_op = decoder.Big64();
  if (campus_op == 0) return false;
  return QUADFS_TRY(store_->Read(SequenceKey(Family::kPending, campus_op))).has_value();
}

void HubCore::Remember(const OpOrigin& origin, const Result<OpResult>& result, uint64_t campus_op,
                       std::vector<RowChange>& batch) {
  if (!origin.node) return;
  RowEncoder row;
  row.Byte(result.ok() ? 0 : static_cast<uint8_t>(result.error().code()));
  row.Big64(campus_op);
  row.Raw(result.ok() ? Encode(*result) : result.error().message());
  batch.push_back({AnswerKey(origin.campus, origin.node, origin.node_op), row.Take()});
  // Answers that the node has seen are not needed again. At most a few at a time.
  uint64_t& pruned = pruned_[{origin.campus, origin.node}];
  if (pruned == 0) pruned = origin.answered_below;
  for (int i = 0; i < 8 && pruned < origin.answered_below; ++i, ++pruned) {
    batch.push_back({AnswerKey(origin.campus, origin.node, pruned), std::nullopt});
  }
}

Result<Change> HubCore::Describe(const LogEntry& entry, const RowReader& before) const {
  Change change = QUADFS_TRY(DescribeChange(before, entry.rows));
  change.origin = entry.node;
  return change;
}

Result<void> HubCore::Shadow(const std::vector<RowChange>& rows, RowOverlay& engine) const {
  for (const RowChange& row : rows) {
    auto shadow = QUADFS_TRY(FindShadow(engine, row.key));
    if (!shadow) shadow = ShadowRow{0, QUADFS_TRY(store_->Read(row.key))};
    ++shadow->count;
    engine.Set(ShadowKey(row.key), EncodeShadow(*shadow));
  }
  return {};
}

Result<void> HubCore::Finish(uint64_t sequence) {
  if (auto synced = sync_->Wait(sync_->Written()); !synced.ok()) return synced;
  view_log_->Release(sequence);
  return {};
}

Result<OpResult> HubCore::Execute(const Operation& operation, const OpOrigin& origin,
                                  const Gate& gate, const std::vector<InodeId>& lease_directories) {
  uint64_t sequence = 0;
  OpResult result;
  {
    MutexLock lock(mutex_);
    if (auto answer = QUADFS_TRY(FindAnswer(origin))) return *std::move(answer);
    if (auto open = gate(*store_); !open.ok()) return std::move(open).error();
    auto effects = quadfs::metadata::Execute(*store_, operation, origin.campus);
    std::vector<RowChange> batch;
    if (!effects.ok()) {
      Remember(origin, effects.error(), 0, batch);
      if (!batch.empty()) {
        if (auto written = store_->Write(batch, false); !written.ok())
          return std::move(written).error();
      }
      return std::move(effects).error();
    }
    result = std::move(effects->result);

    LogEntry entry;
    entry.campus = origin.campus;
    entry.node = origin.node;
    entry.node_op = origin.node_op;
    entry.kind = operation.kind;
    entry.base = SequenceNumber(global_);
    entry.rows = std::move(effects->rows);
    if (options_.primary) {
      entry.verdict = static_cast<uint8_t>(Verdict::kOk);
      for (const InodeId directory : lease_directories) {
        entry.rows.push_back({LeaseKey(directory), EncodeLease({origin.campus, Epoch(1), 0})});
      }
    }
    if (operation.kind == OpKind::kCreate && operation.type == FileType::kDirectory &&
        (!options_.primary || !lease_directories.empty())) {
      // A directory made under a lease is leased to its maker.
      entry.rows.push_back({LeaseKey(operation.inode), EncodeLease({origin.campus, Epoch(1), 0})});
    }
    const Change change = QUADFS_TRY(Describe(entry, *store_));
    StateWriter state(*store_, totals_);
    if (auto set = state.SetAll(entry.rows); !set.ok()) {
      totals_.Clear();
      return std::move(set).error();
    }
    batch = state.Take();
    RowOverlay engine(*store_);
    if (!options_.primary && !entry.rows.empty()) {
      if (auto shadowed = Shadow(entry.rows, engine); !shadowed.ok())
        return std::move(shadowed).error();
      entry.campus_op = campus_op_ + 1;
      LogEntry pending = entry;
      pending.seen = std::move(effects->seen);
      pending.operation = operation;
      engine.Set(SequenceKey(Family::kPending, entry.campus_op), Encode(pending));
      engine.Set(MetaKey("campus_op"), NumberValue(entry.campus_op));
    } else if (!options_.primary) {
      entry.verdict = static_cast<uint8_t>(Verdict::kOk);  // Nothing to tell main.
    }
    for (RowChange& row : engine.Take()) batch.push_back(std::move(row));
    sequence = view_log_->Append(entry, batch);
    result.view = SequenceNumber(sequence);
    Remember(origin, result, entry.campus_op, batch);
    if (auto written = store_->Write(batch, false); !written.ok()) {
      return std::move(written).error().Within(
          "the hub's database failed; restart it when the disk is well");
    }
    if (entry.campus_op != 0) {
      campus_op_ = entry.campus_op;
      ++pending_;
    }
    if (options_.primary) global_ = sequence;
    view_->SetPosition(SequenceNumber(sequence));
    Change posted = change;
    posted.view = SequenceNumber(sequence);
    changes_.PostChange(std::move(posted));
  }
  if (auto finished = Finish(sequence); !finished.ok()) return std::move(finished).error();
  return result;
}

Result<uint64_t> HubCore::Merge(CampusId campus, const std::vector<LogEntry>& entries) {
  uint64_t sequence = 0;
  uint64_t merged = 0;
  {
    MutexLock lock(mutex_);
    merged = QUADFS_TRY(ReadNumber(*store_, MergedKey(campus), 0));
    for (const LogEntry& pending : entries) {
      if (pending.campus_op <= merged) continue;
      auto decided = quadfs::metadata::Merge(*store_, pending);
      if (!decided.ok()) return std::move(decided).error();
      LogEntry entry = pending;
      entry.campus = campus;
      entry.seen.clear();
      entry.operation.reset();
      entry.verdict = decided->verdict;
      entry.rows = std::move(decided->rows);
      Change change = QUADFS_TRY(Describe(entry, *store_));
      StateWriter state(*store_, totals_);
      if (auto set = state.SetAll(entry.rows); !set.ok()) {
        totals_.Clear();
        return std::move(set).error();
      }
      auto batch = state.Take();
      batch.push_back({MergedKey(campus), NumberValue(pending.campus_op)});
      sequence = view_log_->Append(entry, batch);
      if (auto written = store_->Write(batch, false); !written.ok())
        return std::move(written).error();
      merged = pending.campus_op;
      global_ = sequence;
      view_->SetPosition(SequenceNumber(sequence));
      change.view = SequenceNumber(sequence);
      changes_.PostChange(std::move(change));
    }
  }
  if (sequence != 0) {
    if (auto finished = Finish(sequence); !finished.ok()) return std::move(finished).error();
  }
  return merged;
}

Result<uint64_t> HubCore::Merged(CampusId campus) const {
  return ReadNumber(*store_, MergedKey(campus), 0);
}

void HubCore::SkipCampusOps(uint64_t merged) {
  if (campus_op_ >= merged) return;
  MutexLock lock(mutex_);
  if (campus_op_ < merged) campus_op_ = merged;
}

Result<void> HubCore::SetLeases(
    const std::vector<std::pair<InodeId, std::optional<CampusId>>>& leases) {
  uint64_t sequence = 0;
  {
    MutexLock lock(mutex_);
    LogEntry entry;
    entry.verdict = static_cast<uint8_t>(Verdict::kOk);
    for (const auto& [directory, campus] : leases) {
      std::optional<std::string> value;
      if (campus) value = EncodeLease({*campus, Epoch(1), 0});
      entry.rows.push_back({LeaseKey(directory), std::move(value)});
    }
    StateWriter state(*store_, totals_);
    if (auto set = state.SetAll(entry.rows); !set.ok()) return set;
    auto batch = state.Take();
    sequence = view_log_->Append(entry, batch);
    if (auto written = store_->Write(batch, false); !written.ok()) return written;
    global_ = sequence;
    view_->SetPosition(SequenceNumber(sequence));
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
    for (const std::string& bytes : entries) {
      const LogEntry entry = QUADFS_TRY(DecodeLogEntry(bytes));
      if (entry.sequence.value != global_ + 1) {
        return Error(ErrorCode::kStale, "the log from main has a gap");
      }
      RowOverlay engine(*store_);
      uint64_t answered = 0;
      LogEntry shown = entry;
      shown.rows = QUADFS_TRY(ApplyOne(entry, engine, answered));
      Change change = QUADFS_TRY(Describe(shown, *store_));
      StateWriter state(*store_, totals_);
      if (auto set = state.SetAll(shown.rows); !set.ok()) {
        totals_.Clear();
        return set;
      }
      auto batch = state.Take();
      const Checksum chain = ChainChecksum(global_chain_, std::as_bytes(std::span(bytes)));
      RowEncoder position;
      position.Little(entry.sequence.value);
      position.Raw(ChainBytes(chain));
      engine.Set(MetaKey("global"), position.Take());
      engine.Set(SequenceKey(Family::kLog, entry.sequence.value), ChainBytes(chain) + bytes);
      for (RowChange& row : engine.Take()) batch.push_back(std::move(row));
      const uint64_t sequence = view_log_->Append(shown, batch);
      if (auto written = store_->Write(batch, false); !written.ok()) return written;
      // A replica may lose its newest entries in a power cut: main has them. So they are shown to
      // nodes at once, and before anyone who waits for the position goes on.
      view_log_->Release(sequence);
      view_->SetPosition(SequenceNumber(sequence));
      global_chain_ = chain;
      global_ = entry.sequence.value;
      if (answered != 0 && pending_ > 0) --pending_;
      change.view = SequenceNumber(sequence);
      changes_.PostChange(std::move(change));
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
  RowEncoder position;
  position.Little(at.position);
  position.Raw(ChainBytes(at.chain));
  if (auto written = store_->Write({{MetaKey("global"), position.Take()}}, true); !written.ok()) {
    return written;
  }
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

Result<uint64_t> HubCore::ReserveInodes(uint64_t count) {
  MutexLock lock(mutex_);
  constexpr uint64_t kFirst = 65536;  // Small numbers are kept for the root and the like.
  const uint64_t next = QUADFS_TRY(ReadNumber(*store_, MetaKey("next_inode"), kFirst));
  if (next + count >= uint64_t{1} << 48)
    return Error(ErrorCode::kNoSpace, "inode numbers are used up");
  if (auto written = store_->Write({{MetaKey("next_inode"), NumberValue(next + count)}}, true);
      !written.ok()) {
    return std::move(written).error();
  }
  return (options_.campus.value << 48) + next;
}

Result<uint64_t> HubCore::NextCounter(const std::string& name, uint64_t first) {
  MutexLock lock(mutex_);
  const uint64_t next = QUADFS_TRY(ReadNumber(*store_, MetaKey(name), first));
  if (auto written = store_->Write({{MetaKey(name), NumberValue(next + 1)}}, true); !written.ok()) {
    return std::move(written).error();
  }
  return next;
}

HubCore::Image HubCore::TakeImage() const {
  MutexLock lock(mutex_);
  Image image;
  image.snapshot = store_->Snapshot();
  image.position = view_log_->last();
  image.chain = view_log_->chain();
  image.global = global_;
  return image;
}

Result<void> HubCore::Trim(uint64_t keep_bytes) { return view_log_->Trim(keep_bytes); }

}  // namespace quadfs::metadata
