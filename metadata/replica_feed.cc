#include "metadata/replica_feed.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "metadata/codec.h"
#include "metadata/proto/wire.pb.h"
#include "metadata/row_bytes.h"
#include "metadata/snapshot_stream.h"
#include "metadata/wire.h"
#include "transport/frame.h"

namespace quadfs::metadata {
namespace {

using std::chrono::milliseconds;

constexpr auto kFirstRetry = milliseconds(50);
constexpr auto kLastRetry = milliseconds(1000);
constexpr auto kBootstrapLimit = std::chrono::hours(2);
const char* const kPositionName = "node.position";

std::string EncodePosition(uint64_t position, const Checksum& chain) {
  RowEncoder row;
  row.Little(position);
  row.Raw({reinterpret_cast<const char*>(chain.bytes.data()), chain.bytes.size()});
  return row.Take();
}

}  // namespace

ReplicaFeed::ReplicaFeed(NodeReplica::Options options, std::string cluster, transport::Client& hub,
                         ChangeQueue& changes, Hooks hooks)
    : options_(std::move(options)),
      cluster_(std::move(cluster)),
      hub_(hub),
      changes_(changes),
      hooks_(std::move(hooks)) {}

Result<std::shared_ptr<SwitchingView::Replica>> ReplicaFeed::OpenRows(
    const std::string& directory) const {
  RowStore::Options store;
  store.cluster = cluster_;
  store.block_cache_bytes = options_.block_cache_bytes;
  auto replica = std::make_shared<SwitchingView::Replica>();
  replica->store = QUADFS_TRY(RowStore::Open(directory, store));
  replica->view = std::make_unique<RocksView>(*replica->store);
  return replica;
}

Result<void> ReplicaFeed::Open() {
  // Each history has a folder of its own, numbered; the newest that is whole counts. (RocksDB
  // knows a data base in use by its path, so the next one cannot take the old one's place.)
  std::error_code error;
  std::filesystem::create_directories(options_.directory, error);
  std::vector<uint64_t> numbers;
  for (const auto& entry : std::filesystem::directory_iterator(options_.directory, error)) {
    const std::string name = entry.path().filename();
    uint64_t number = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
    if (parsed.ec == std::errc() && parsed.ptr == name.data() + name.size())
      numbers.push_back(number);
  }
  if (error) return Error(ErrorCode::kIo, options_.directory + ": " + error.message());
  std::sort(numbers.rbegin(), numbers.rend());
  for (const uint64_t number : numbers) {
    number_ = std::max(number_, number);
    auto opened = OpenRows(Folder(number));
    if (!opened.ok() && opened.error().code() != ErrorCode::kCorruption)
      return std::move(opened).error();
    const auto row = opened.ok() ? (*opened)->store->Read(MetaKey(kPositionName))
                                 : Result<std::optional<std::string>>(std::optional<std::string>());
    if (!view_.Current() && row.ok() && *row) {
      RowDecoder position(**row);
      position_ = position.Little<uint64_t>();
      const std::string_view chain = position.Raw(chain_.bytes.size());
      if (!position.AtEnd())
        return Error(ErrorCode::kCorruption, "the replica's position cannot be read");
      std::memcpy(chain_.bytes.data(), chain.data(), chain.size());
      if (auto restored = Restore(*(*opened)->store); !restored.ok()) return restored;
      (*opened)->view->SetPosition(SequenceNumber(position_));
      view_.Exchange(*std::move(opened));
      continue;
    }
    // Older, never finished or damaged: the hub has it all.
    if (opened.ok()) opened->reset();
    std::filesystem::remove_all(Folder(number), error);
  }
  if (!view_.Current()) view_.Exchange(QUADFS_TRY(OpenRows(Folder(++number_))));
  const bool has_root = QUADFS_TRY(view_.Current()->store->Read(InodeKey(kRootInode))).has_value();
  MutexLock lock(mutex_);
  ready_ = has_root;
  applied_ = position_;
  return {};
}

std::string ReplicaFeed::Folder(uint64_t number) const {
  return options_.directory + "/" + std::to_string(number);
}

void ReplicaFeed::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Follow(stop); });
}

void ReplicaFeed::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

bool ReplicaFeed::ready() const {
  MutexLock lock(mutex_);
  return ready_;
}

uint64_t ReplicaFeed::history() const {
  MutexLock lock(mutex_);
  return history_;
}

Result<void> ReplicaFeed::WaitReady(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!ready_) {
    if (stopping_) return Error(ErrorCode::kCancelled, "the node is stopping");
    if (!changed_.WaitUntil(mutex_, deadline.at())) {
      return Error(ErrorCode::kUnavailable, "no tree from the hub yet: " + problem_);
    }
  }
  return {};
}

Result<void> ReplicaFeed::WaitApplied(SequenceNumber position, Deadline deadline) {
  MutexLock lock(mutex_);
  const uint64_t history = history_;
  while (applied_ < position.value && history == history_) {
    if (stopping_) return Error(ErrorCode::kCancelled, "the node is stopping");
    if (!changed_.WaitUntil(mutex_, deadline.at())) {
      return Error(ErrorCode::kTimedOut,
                   "the hub did it, but its log has not arrived here: " + problem_);
    }
  }
  return {};
}

NodeReplica::Status ReplicaFeed::status() const {
  MutexLock lock(mutex_);
  NodeReplica::Status status;
  status.connected = connected_;
  status.main_connected = connected_ && main_connected_;
  status.position = SequenceNumber(applied_);
  if (main_heard_ != Clock::TimePoint()) {
    status.lag =
        std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - main_heard_);
  }
  if (!connected_) status.problem = problem_;
  return status;
}

void ReplicaFeed::SetLink(bool up, const std::string& problem) {
  bool changed = false;
  {
    MutexLock lock(mutex_);
    changed = connected_ != up;
    connected_ = up;
    problem_ = problem;
    changed_.NotifyAll();
  }
  if (!up) hooks_.on_link(false);
  if (changed) changes_.Post([up](ChangeListener& listener) { listener.OnLink(up); });
}

void ReplicaFeed::Follow(std::stop_token stop) {
  auto retry = kFirstRetry;
  while (!stop.stop_requested()) {
    std::string target = "/v1/log?from=" + std::to_string(position_);
    if (position_ != 0) target += "&chain=" + chain_.ToHex();
    transport::FrameReader reader;
    auto followed =
        hub_.Follow(target, options_.silence, stop, [&](std::span<const std::byte> data) {
          retry = kFirstRetry;
          return reader.Feed(data, [&](const transport::Frame& frame) {
            return OnFrame(frame.type, frame.payload);
          });
        });
    if (stop.stop_requested()) return;
    SetLink(false, followed.ok() ? "the hub closed the stream" : followed.error().message());
    const bool damaged = [this] {
      MutexLock lock(rows_mutex_);
      return damaged_;
    }();
    if (damaged || (!followed.ok() && followed.error().code() == ErrorCode::kStale)) {
      auto rebuilt = Bootstrap();
      if (rebuilt.ok()) continue;
      SetLink(false, rebuilt.error().message());
    }
    MutexLock lock(mutex_);
    if (!stopping_) changed_.WaitUntil(mutex_, std::chrono::steady_clock::now() + retry);
    retry = std::min<milliseconds>(retry * 2, kLastRetry);
  }
}

Result<void> ReplicaFeed::Bootstrap() {
  const uint64_t number = number_ + 1;
  std::error_code error;
  std::filesystem::remove_all(Folder(number), error);
  auto replica = QUADFS_TRY(OpenRows(Folder(number)));
  const SnapshotPosition at = QUADFS_TRY(
      ReceiveSnapshot(hub_, cluster_, *replica->store, Deadline::After(kBootstrapLimit)));
  if (!QUADFS_TRY(replica->store->Read(InodeKey(kRootInode)))) {
    return Error(ErrorCode::kUnavailable, "the hub has no tree yet");
  }
  auto written = replica->store->Write(
      {{MetaKey(kPositionName), EncodePosition(at.position, at.chain)}}, true);
  if (!written.ok()) return written;
  replica->view->SetPosition(SequenceNumber(at.position));
  {
    MutexLock rows(rows_mutex_);
    view_.Exchange(std::move(replica));
    totals_.Clear();
    provisional_.Clear();
    to_settle_.clear();
    damaged_ = false;
  }
  // Readers that are still in the old rows keep the files open.
  std::filesystem::remove_all(Folder(number_), error);
  number_ = number;
  position_ = at.position;
  chain_ = at.chain;
  {
    MutexLock lock(mutex_);
    applied_ = position_;
    ++history_;
    ready_ = true;
    changed_.NotifyAll();
  }
  hooks_.on_rebuilt();
  changes_.Post([](ChangeListener& listener) { listener.OnReset(); });
  return {};
}

Result<void> ReplicaFeed::OnFrame(uint8_t type, const std::string& payload) {
  switch (static_cast<FrameType>(type)) {
    case FrameType::kStart: {
      wire::StreamStart start;
      if (!start.ParseFromString(payload) || start.chain().size() != chain_.bytes.size() ||
          start.position() != position_) {
        return Error(ErrorCode::kCorruption, "the stream's start cannot be read");
      }
      std::memcpy(chain_.bytes.data(), start.chain().data(), start.chain().size());
      return {};
    }
    case FrameType::kEntries: return Apply(payload);
    case FrameType::kHeartbeat: {
      wire::Heartbeat beat;
      if (!beat.ParseFromString(payload))
        return Error(ErrorCode::kCorruption, "a heartbeat cannot be read");
      SetLink(true, "");
      hooks_.on_link(beat.main_connected());
      MutexLock lock(mutex_);
      main_connected_ = beat.main_connected();
      main_heard_ = std::chrono::steady_clock::now() - milliseconds(beat.main_silent_ms());
      return {};
    }
    case FrameType::kMessage: {
      wire::SideMessage side;
      if (!side.ParseFromString(payload))
        return Error(ErrorCode::kCorruption, "a message cannot be read");
      Message message{side.kind(), CampusId(side.campus()), NodeId(side.node()), side.payload()};
      changes_.Post([message](ChangeListener& listener) { listener.OnMessage(message); });
      return {};
    }
    case FrameType::kRecallDelegations: {
      wire::DelegationList list;
      if (!list.ParseFromString(payload))
        return Error(ErrorCode::kCorruption, "a recall cannot be read");
      std::vector<Delegation> demanded;
      for (const wire::Delegation& one : list.delegations()) {
        demanded.push_back({InodeId(one.directory()), one.number()});
      }
      hooks_.on_recall(std::move(demanded));
      return {};
    }
    case FrameType::kFlushDemand: {
      wire::FlushDemand demand;
      if (!demand.ParseFromString(payload))
        return Error(ErrorCode::kCorruption, "a demand cannot be read");
      hooks_.on_flush_demand(demand.number());
      return {};
    }
    default: return {};
  }
}

Result<void> ReplicaFeed::Apply(const std::string& payload) {
  wire::EntryBatch batch;
  if (!batch.ParseFromString(payload))
    return Error(ErrorCode::kCorruption, "entries cannot be read");
  std::vector<Change> changes;
  std::vector<uint64_t> committed;
  uint64_t position = position_;
  Checksum chain = chain_;
  {
    MutexLock rows_lock(rows_mutex_);
    if (damaged_) return Error(ErrorCode::kStale, "the replica could not be written");
    const auto replica = view_.Current();
    RowStore& store = *replica->store;
    StateWriter state(store, totals_);
    std::vector<RowChange> engine;
    // After a failure in the middle, the provisional rows in memory say something else.
    damaged_ = true;
    for (const std::string& bytes : batch.entries()) {
      const LogEntry entry = QUADFS_TRY(DecodeLogEntry(bytes));
      if (entry.sequence.value != position + 1)
        return Error(ErrorCode::kStale, "the hub's log has a gap");
      std::vector<RowChange> visible = provisional_.Visible(entry.rows, engine);
      const bool own = entry.node == options_.node && entry.node && entry.campus == options_.campus;
      const bool shown = own && provisional_.Contains(entry.node_op);
      std::vector<InodeId> removed;
      if (shown) {
        removed = QUADFS_TRY(DescribeChange(state, entry.rows)).removed;
        // What the log says of it and what was shown: only a difference is news.
        for (RowChange& row : QUADFS_TRY(provisional_.Reveal(state, entry.node_op, engine))) {
          visible.push_back(std::move(row));
        }
      }
      Change change = QUADFS_TRY(DescribeChange(state, visible));
      if (shown) change.removed = std::move(removed);
      change.view = entry.sequence;
      change.origin = entry.node;
      change.own = own && !shown;
      if (own && entry.verdict != 0) {
        committed.push_back(entry.node_op);
        // An answer that changes what we showed is news to our own kernel too.
        if (entry.campus_op != 0) change.own = false;
      }
      QUADFS_TRY(state.SetAll(visible));
      changes.push_back(std::move(change));
      position = entry.sequence.value;
      chain = ChainChecksum(chain, std::as_bytes(std::span(bytes)));
    }
    auto rows = state.Take();
    rows.push_back({MetaKey(kPositionName), EncodePosition(position, chain)});
    rows.insert(rows.end(), std::make_move_iterator(engine.begin()),
                std::make_move_iterator(engine.end()));
    QUADFS_TRY(store.Write(rows, false));
    damaged_ = false;
    position_ = position;
    chain_ = chain;
    replica->view->SetPosition(SequenceNumber(position));
    while (!to_settle_.empty() && to_settle_.begin()->first <= position) {
      for (const uint64_t node_op : to_settle_.begin()->second) QUADFS_TRY(Reveal(node_op));
      to_settle_.erase(to_settle_.begin());
    }
  }
  for (const uint64_t node_op : committed) hooks_.on_committed(node_op);
  for (Change& change : changes) changes_.PostChange(std::move(change));
  MutexLock lock(mutex_);
  applied_ = position;
  ready_ = true;
  changed_.NotifyAll();
  return {};
}

}  // namespace quadfs::metadata
