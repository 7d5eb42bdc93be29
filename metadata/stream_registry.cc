#include "metadata/stream_registry.h"

#include <charconv>

#include "metadata/proto/wire.pb.h"
#include "transport/frame.h"

namespace quadfs::metadata {
namespace {

constexpr uint64_t kReplayLimit = 20000;  ///< A new follower further behind gets a snapshot.

}  // namespace

void StreamRegistry::Serve(transport::Request& request, transport::Response& response,
                           CampusId campus, NodeId node) {
  uint64_t from = 0;
  const std::string text = request.query("from");
  std::from_chars(text.data(), text.data() + text.size(), from);
  const std::string hex = request.query("chain");
  Result<void> known;
  Checksum start = log_.start_chain();
  if (hex.empty()) {
    // Nothing there yet: a short log is replayed from its start.
    if (from != 0 || log_.first() != 1 || log_.released() > kReplayLimit) {
      known = Error(ErrorCode::kStale, "start from a snapshot");
    }
  } else {
    const auto chain = ChecksumFromHex(hex);
    known = chain.ok() ? log_.CheckHistory(from, *chain) : Result<void>(chain.error());
    if (chain.ok()) start = *chain;
  }
  if (!known.ok()) {
    (void)response.Fail(known.error());
    return;
  }
  auto outbox = std::make_shared<Outbox>();
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    auto& slot = outboxes_[{campus, node}];
    if (slot) slot->closed = true;  // Its older stream is dead, it only does not know yet.
    slot = outbox;
  }
  log_.Poke();
  wire::StreamStart head;
  head.set_position(from);
  head.set_chain(start.bytes.data(), start.bytes.size());
  std::string frame;
  transport::AppendFrame(frame, static_cast<uint8_t>(FrameType::kStart), head.SerializeAsString());
  if (response.Start(200, "application/octet-stream", std::nullopt).ok() &&
      response.Write(std::as_bytes(std::span(frame))).ok()) {
    (void)Pump(response, *outbox, from);
  }
  MutexLock lock(mutex_);
  const auto found = outboxes_.find({campus, node});
  if (found != outboxes_.end() && found->second == outbox) outboxes_.erase(found);
}

Result<void> StreamRegistry::Pump(transport::Response& response, Outbox& outbox, uint64_t after) {
  auto next_heartbeat = std::chrono::steady_clock::now();
  while (!response.Ended()) {
    std::string out;
    {
      MutexLock lock(mutex_);
      if (stopping_ || outbox.closed) return {};
      outbox.position = after;
      for (const std::string& frame : outbox.frames) out += frame;
      outbox.frames.clear();
      outbox.bytes = 0;
    }
    const auto items = QUADFS_TRY(log_.Read(after, kMaxBatchBytes));
    if (!items.empty()) {
      wire::EntryBatch batch;
      batch.set_first(items.front()->sequence);
      for (const auto& item : items) batch.add_entries(item->bytes);
      after = items.back()->sequence;
      transport::AppendFrame(out, static_cast<uint8_t>(FrameType::kEntries),
                             batch.SerializeAsString());
    }
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_heartbeat) {
      transport::AppendFrame(out, static_cast<uint8_t>(FrameType::kHeartbeat), source_());
      next_heartbeat = now + heartbeat_;
    }
    if (!out.empty()) {
      if (auto sent = response.Write(std::as_bytes(std::span(out))); !sent.ok()) return sent;
      continue;
    }
    log_.WaitBeyond(after, next_heartbeat);
  }
  return {};
}

Result<void> StreamRegistry::Send(CampusId campus, NodeId node, FrameType type,
                                  const std::string& payload) {
  std::string frame;
  transport::AppendFrame(frame, static_cast<uint8_t>(type), payload);
  {
    MutexLock lock(mutex_);
    const auto found = outboxes_.find({campus, node});
    if (found == outboxes_.end()) {
      return Error(ErrorCode::kUnavailable, "no stream to that node or campus");
    }
    Outbox& outbox = *found->second;
    outbox.bytes += frame.size();
    if (outbox.bytes > kMaxOutboxBytes) outbox.closed = true;
    outbox.frames.push_back(std::move(frame));
  }
  log_.Poke();
  return {};
}

void StreamRegistry::SendAll(FrameType type, const std::string& payload) {
  std::vector<Follower> followers;
  {
    MutexLock lock(mutex_);
    for (const auto& [follower, outbox] : outboxes_) followers.push_back(follower);
  }
  for (const auto& [campus, node] : followers) (void)Send(campus, node, type, payload);
}

bool StreamRegistry::IsConnected(CampusId campus, NodeId node) const {
  MutexLock lock(mutex_);
  return outboxes_.contains({campus, node});
}

std::vector<Hub::PeerStatus> StreamRegistry::Peers() const {
  std::vector<Hub::PeerStatus> peers;
  MutexLock lock(mutex_);
  for (const auto& [follower, outbox] : outboxes_) {
    Hub::PeerStatus peer;
    peer.member.campus = follower.first;
    peer.member.node = follower.second;
    peer.connected = true;
    peer.position = SequenceNumber(outbox->position);
    peers.push_back(std::move(peer));
  }
  return peers;
}

void StreamRegistry::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  log_.Poke();
}

}  // namespace quadfs::metadata
