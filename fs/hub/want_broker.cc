#include "fs/hub/want_broker.h"

#include <algorithm>
#include <vector>

#include "fs/data/block_cutter.h"
#include "fs/data/messages.h"
#include "fs/data/proto/data.pb.h"
#include "transport/base/random.h"

namespace quadfs::fs {
namespace {

constexpr size_t kReadBytes = size_t{512} << 10;

bool IsFrom(const transport::PeerIdentity& from, const WantBroker::Peer& peer) {
  const bool hub = from.role == transport::Role::kHub;
  return from.campus == peer.campus && (hub ? !peer.node : from.node == peer.node);
}

}  // namespace

struct WantBroker::Pending {
  Peer peer;
  Wanted wanted;
  const BlockSource::ManifestSink* manifest_sink = nullptr;
  const BlockSink* sink = nullptr;
  Clock::TimePoint quiet_until;  ///< When patience with the peer ends.
  bool claimed = false;          ///< A PUT is bringing it.
  bool in_sink = false;          ///< The fetch must not return now.
  bool abandoned = false;        ///< The fetch gave up: the sinks are gone.
  bool done = false;
  std::optional<Error> error;
  CondVar changed;
};

WantBroker::WantBroker(Options options, metadata::Hub& hub)
    : options_(options), hub_(hub), next_id_(Random::System().Next() | 1) {}

Result<void> WantBroker::Fetch(const Peer& peer, const Wanted& wanted, Deadline deadline,
                               const BlockSource::ManifestSink& manifest_sink,
                               const BlockSink& sink) {
  const auto pending = std::make_shared<Pending>();
  pending->peer = peer;
  pending->wanted = wanted;
  pending->manifest_sink = manifest_sink ? &manifest_sink : nullptr;
  pending->sink = &sink;
  pending->quiet_until = std::chrono::steady_clock::now() + options_.answer;
  uint64_t id = 0;
  {
    MutexLock lock(mutex_);
    if (stopping_) return Error(ErrorCode::kCancelled, "the hub stops");
    if (pending_.size() >= options_.max_pending) {
      return Error(ErrorCode::kBusy, "too many wants are under way");
    }
    id = next_id_++;
    pending_[id] = pending;
  }
  data::Want want;
  want.set_id(id);
  want.mutable_object()->set_inode(wanted.object.inode.value);
  want.mutable_object()->set_generation(wanted.object.generation.value);
  want.set_first(wanted.first);
  want.set_count(wanted.count);
  want.set_manifest(pending->manifest_sink != nullptr);
  want.set_deadline_ms(
      static_cast<uint32_t>(std::clamp<int64_t>(deadline.Left().count(), 1, 600'000)));
  auto sent = hub_.SendMessage(peer.campus, peer.node, kMessageWant, want.SerializeAsString());
  MutexLock lock(mutex_);
  auto ended = sent.ok() ? AwaitEnd(*pending, deadline) : std::move(sent);
  pending->abandoned = true;
  pending_.erase(id);
  while (pending->in_sink) pending->changed.Wait(mutex_);
  return ended;
}

Result<void> WantBroker::AwaitEnd(Pending& pending, Deadline deadline) {
  while (!pending.done && !stopping_) {
    const auto until = std::min(deadline.at(), pending.quiet_until);
    if (!pending.changed.WaitUntil(mutex_, until) && !pending.done &&
        std::chrono::steady_clock::now() >= std::min(deadline.at(), pending.quiet_until)) {
      return Error(ErrorCode::kTimedOut, "the peer that holds it does not send it");
    }
  }
  if (!pending.done) return Error(ErrorCode::kCancelled, "the hub stops");
  if (pending.error) return *pending.error;
  return {};
}

WantBroker::PendingRef WantBroker::FindOf(const transport::PeerIdentity& from, uint64_t id) {
  const auto found = pending_.find(id);
  // Somebody else's want is unknown to this peer.
  if (found == pending_.end() || !IsFrom(from, found->second->peer)) return nullptr;
  return found->second;
}

Result<WantBroker::PendingRef> WantBroker::Claim(const transport::PeerIdentity& from, uint64_t id,
                                                 const Wanted& wanted) {
  MutexLock lock(mutex_);
  const auto pending = FindOf(from, id);
  if (pending == nullptr) return Error(ErrorCode::kNotFound, "nobody waits for this want");
  if (wanted.object != pending->wanted.object || wanted.first != pending->wanted.first ||
      wanted.count != pending->wanted.count) {
    return Error(ErrorCode::kInvalidArgument, "these are not the blocks that were wanted");
  }
  if (pending->claimed) return Error(ErrorCode::kBusy, "the want is being answered already");
  pending->claimed = true;
  pending->quiet_until = std::chrono::steady_clock::now() + options_.progress;
  return pending;
}

Result<void> WantBroker::TakeBlocks(transport::Request& request, uint64_t id,
                                    const Wanted& wanted) {
  const auto pending = QUADFS_TRY(Claim(request.peer(), id, wanted));
  auto received = Receive(request, *pending);
  MutexLock lock(mutex_);
  pending->done = true;
  if (!received.ok()) pending->error = received.error();
  pending->changed.NotifyAll();
  return received;
}

Result<void> WantBroker::Receive(transport::Request& request, Pending& pending) {
  BlockCutter cutter(pending.wanted.first, pending.wanted.count, std::nullopt, *pending.sink);
  if (pending.manifest_sink != nullptr) cutter.ExpectManifest(*pending.manifest_sink);
  std::vector<std::byte> buffer(kReadBytes);
  // Sinks are only called between Enter and Leave, which Fetch waits for.
  const auto guarded = [&](const auto& feed) -> Result<void> {
    {
      MutexLock lock(mutex_);
      if (pending.abandoned || stopping_) {
        return Error(ErrorCode::kCancelled, "nobody waits for it any more");
      }
      pending.in_sink = true;
    }
    auto fed = feed();
    MutexLock lock(mutex_);
    pending.in_sink = false;
    pending.quiet_until = std::chrono::steady_clock::now() + options_.progress;
    pending.changed.NotifyAll();
    return fed;
  };
  for (;;) {
    const size_t count = QUADFS_TRY(request.ReadBody(buffer));
    if (count == 0) break;
    QUADFS_TRY(guarded([&] { return cutter.Feed(std::span(buffer).subspan(0, count)); }));
  }
  return guarded([&] { return cutter.Finish(); });
}

Result<void> WantBroker::TakeFailure(const transport::PeerIdentity& from, uint64_t id,
                                     const Error& error) {
  MutexLock lock(mutex_);
  const auto pending = FindOf(from, id);
  if (pending == nullptr) return Error(ErrorCode::kNotFound, "nobody waits for this want");
  if (!pending->done) {
    pending->done = true;
    pending->error = error;
    pending->changed.NotifyAll();
  }
  return {};
}

void WantBroker::Stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  for (const auto& [id, pending] : pending_) pending->changed.NotifyAll();
}

}  // namespace quadfs::fs
