#include "metadata/hub_core.h"

#include <cstring>

#include "metadata/execute.h"
#include "metadata/hub_rows.h"
#include "metadata/merge.h"
#include "metadata/row_bytes.h"

namespace quadfs::metadata {
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

Result<uint64_t> HubCore::Commit(LogEntry& entry, std::vector<RowChange> engine_rows) {
  Change change = QUADFS_TRY(DescribeChange(*store_, entry.rows));
  StateWriter state(*store_, totals_);
  if (auto set = state.SetAll(entry.rows); !set.ok()) {
    totals_.Clear();
    return std::move(set).error();
  }
  std::vector<RowChange> batch = state.Take();
  for (RowChange& row : engine_rows) batch.push_back(std::move(row));
  const uint64_t sequence = view_log_->Append(entry, batch);
  if (auto written = store_->Write(batch, false); !written.ok()) {
    // The log in memory is now ahead of the one on disk: nothing may be built on it.
    broken_ = std::move(written).error().Within(
        "the hub's database failed (restart quadfsd when its disk is well)");
    return *broken_;
  }
  view_->SetPosition(SequenceNumber(sequence));
  change.view = SequenceNumber(sequence);
  change.origin = entry.node;
  changes_.PostChange(std::move(change));
  return sequence;
}

void HubCore::Quiesce() const { MutexLock lock(mutex_); }

Result<void> HubCore::Finish(uint64_t sequence) {
  if (sequence == 0) return {};
  if (auto synced = sync_->Wait(sync_->Written()); !synced.ok()) return synced;
  view_log_->Release(sequence);
  return {};
}

Result<HubCore::Accepted> HubCore::Execute(const Operation& operation, const OpOrigin& origin,
                                           const Gate& gate,
                                           const std::vector<InodeId>& lease_directories) {
  Accepted accepted = QUADFS_TRY(Accept(operation, origin, gate, lease_directories));
  if (auto finished = Finish(accepted.sequence); !finished.ok()) return std::move(finished).error();
  return accepted;
}

Result<HubCore::Accepted> HubCore::Accept(const Operation& operation, const OpOrigin& origin,
                                          const Gate& gate,
                                          const std::vector<InodeId>& lease_directories) {
  Accepted accepted;
  OpResult& result = accepted.result;
  {
    MutexLock lock(mutex_);
    if (broken_) return *broken_;
    if (auto answer = QUADFS_TRY(FindAnswer(origin))) {
      if (!answer->ok()) return std::move(*answer).error();
      result = *std::move(*answer);
      accepted.sequence = result.view.value;  // Its first attempt may not be on the disk yet.
      accepted.pending = QUADFS_TRY(IsPending(origin));
      return accepted;
    }
    if (auto open = gate(*store_); !open.ok()) return std::move(open).error();
    auto effects = quadfs::metadata::Execute(*store_, operation, origin.campus);
    if (!effects.ok()) {
      std::vector<RowChange> answer;
      Remember(origin, effects.error(), 0, answer);
      if (answer.empty()) return std::move(effects).error();
      auto written = store_->Write(answer, false);
      return written.ok() ? std::move(effects).error() : std::move(written).error();
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
    RowOverlay engine(*store_);
    if (!options_.primary && !entry.rows.empty()) {
      if (auto shadowed = Shadow(entry.rows, engine); !shadowed.ok()) {
        return std::move(shadowed).error();
      }
      entry.campus_op = campus_op_ + 1;
      LogEntry pending = entry;
      pending.seen = std::move(effects->seen);
      pending.operation = operation;
      engine.Set(SequenceKey(Family::kPending, entry.campus_op), Encode(pending));
      engine.Set(MetaKey("campus_op"), NumberValue(entry.campus_op));
    } else if (!options_.primary) {
      entry.verdict = static_cast<uint8_t>(Verdict::kOk);  // Nothing to tell main.
    }
    std::vector<RowChange> rows = engine.Take();
    result.view = SequenceNumber(view_log_->last() + 1);
    Remember(origin, result, entry.campus_op, rows);
    accepted.sequence = QUADFS_TRY(Commit(entry, std::move(rows)));
    if (entry.campus_op != 0) {
      campus_op_ = entry.campus_op;
      ++pending_;
      accepted.pending = true;
    }
    if (options_.primary) global_ = accepted.sequence;
  }
  return accepted;
}

Result<std::set<NodeId>> HubCore::DelegationHolders() const {
  std::set<NodeId> nodes;
  const RowKey prefix = HolderKey(NodeId()).substr(0, 2);
  const auto scanned = store_->ScanPrefix(prefix, {}, [&](std::string_view key, std::string_view) {
    RowDecoder row(key.substr(prefix.size()));
    nodes.insert(NodeId(row.Big64()));
    return true;
  });
  if (!scanned.ok()) return scanned.error();
  return nodes;
}

Result<void> HubCore::SetDelegationHolder(NodeId node, bool holds) {
  return store_->Write({{HolderKey(node), holds ? std::optional<std::string>("") : std::nullopt}},
                       true);
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
