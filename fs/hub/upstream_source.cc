#include "fs/hub/upstream_source.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace quadfs::fs {

bool UpstreamSource::Shunned(const ObjectId& object, const Peer& peer) const {
  MutexLock lock(mutex_);
  const auto found = shunned_.find({object, peer});
  return found != shunned_.end() && found->second > std::chrono::steady_clock::now();
}

void UpstreamSource::Shun(const ObjectId& object, const Peer& peer) {
  MutexLock lock(mutex_);
  if (shunned_.size() >= kMaxShunned) shunned_.erase(shunned_.begin());
  shunned_[{object, peer}] = std::chrono::steady_clock::now() + kShun;
}

UpstreamSource::Candidates UpstreamSource::CandidatesFor(const ObjectId& object) const {
  Candidates candidates;
  candidates.ask_main = main_ != nullptr && scope_ == Scope::kEverywhere;
  const auto locations = view_.Locations(object.inode);
  if (!locations.ok()) return candidates;
  std::vector<Peer> nodes, hubs;
  for (const auto& location : *locations) {
    if (location.generation != object.generation) continue;
    if (location.campus == own_campus_) {
      if (location.node) nodes.push_back({location.campus, location.node});
    } else if (main_ == nullptr && scope_ == Scope::kEverywhere) {
      const Peer hub{location.campus, NodeId(0)};
      if (std::find(hubs.begin(), hubs.end(), hub) == hubs.end()) hubs.push_back(hub);
    }
  }
  candidates.peers = std::move(nodes);
  candidates.peers.insert(candidates.peers.end(), hubs.begin(), hubs.end());
  std::stable_partition(candidates.peers.begin(), candidates.peers.end(),
                        [&](const Peer& peer) { return !Shunned(object, peer); });
  return candidates;
}

Result<void> UpstreamSource::Ask(const Peer* peer, const WantBroker::Wanted& wanted,
                                 Deadline deadline, const ManifestSink& manifest_sink,
                                 const BlockSink& sink) {
  if (peer != nullptr) return broker_.Fetch(*peer, wanted, deadline, manifest_sink, sink);
  if (!manifest_sink) {
    return main_->FetchBlocks(wanted.object, wanted.first, wanted.count, deadline, sink);
  }
  if (wanted.count == 0) {
    return manifest_sink(QUADFS_TRY(main_->FetchManifest(wanted.object, deadline)));
  }
  return main_->FetchWithManifest(wanted.object, wanted.first, wanted.count, deadline,
                                  manifest_sink, sink);
}

Result<void> UpstreamSource::Fetch(const ObjectId& object, uint64_t first, uint64_t count,
                                   Deadline deadline, const ManifestSink& manifest_sink,
                                   const BlockSink& sink) {
  const Candidates candidates = CandidatesFor(object);
  uint64_t next = first;
  bool manifest_done = !manifest_sink;
  std::optional<Error> sink_error, failure;
  // What our own sink refuses is told from what the source fails with.
  const ManifestSink take_manifest = [&](cache::Manifest manifest) -> Result<void> {
    if (manifest_done) return {};
    auto taken = manifest_sink(std::move(manifest));
    if (taken.ok())
      manifest_done = true;
    else
      sink_error = taken.error();
    return taken;
  };
  const BlockSink take_block(
      [&](uint64_t index, std::span<const std::byte> block) {
        auto taken = sink(index, block);
        if (taken.ok())
          ++next;
        else
          sink_error = taken.error();
        return taken;
      },
      [&](uint64_t index, const ArrivingBlockRef& block) { sink.Begins(index, block); });
  std::vector<const Peer*> order;
  for (const Peer& peer : candidates.peers) order.push_back(&peer);
  if (candidates.ask_main) {
    const auto bad = std::find_if(order.begin(), order.end(),
                                  [&](const Peer* peer) { return Shunned(object, *peer); });
    order.insert(bad, nullptr);
  }
  for (const Peer* peer : order) {
    if (deadline.Passed()) break;
    sink_error.reset();
    auto asked = Ask(peer, {object, next, count - (next - first)}, deadline,
                     manifest_done ? ManifestSink() : take_manifest, take_block);
    if (asked.ok()) return {};
    if (sink_error && sink_error->code() != ErrorCode::kCorruption) return *sink_error;
    if (asked.error().code() == ErrorCode::kCorruption && peer != nullptr) Shun(object, *peer);
    // "Not there" is only the answer if nobody failed in another way.
    if (!failure || failure->code() == ErrorCode::kNotFound) failure = asked.error();
  }
  if (failure) return *failure;
  if (deadline.Passed()) return Error(ErrorCode::kTimedOut, "no holder answered in time");
  return Error(ErrorCode::kNotFound, "nobody holds " + cache::ObjectName(object));
}

Result<cache::Manifest> UpstreamSource::FetchManifest(const ObjectId& object, Deadline deadline) {
  std::optional<cache::Manifest> manifest;
  QUADFS_TRY(Fetch(
      object, 0, 0, deadline,
      [&](cache::Manifest taken) -> Result<void> {
        manifest = std::move(taken);
        return {};
      },
      [](uint64_t, std::span<const std::byte>) -> Result<void> {
        return Error(ErrorCode::kCorruption, "blocks were sent that nobody asked for");
      }));
  if (!manifest) return Error(ErrorCode::kUnavailable, "no manifest was sent");
  return std::move(*manifest);
}

Result<void> UpstreamSource::FetchBlocks(const ObjectId& object, uint64_t first, uint64_t count,
                                         Deadline deadline, const BlockSink& sink) {
  return Fetch(object, first, count, deadline, {}, sink);
}

Result<void> UpstreamSource::FetchWithManifest(const ObjectId& object, uint64_t first,
                                               uint64_t count, Deadline deadline,
                                               const ManifestSink& manifest_sink,
                                               const BlockSink& sink) {
  return Fetch(object, first, count, deadline, manifest_sink, sink);
}

/// One request to main for all that no node of the campus has; singly from their holders otherwise.
Result<void> UpstreamSource::FetchBundle(const std::vector<ObjectId>& objects, Deadline deadline,
                                         const ObjectSink& sink) {
  std::vector<ObjectId> from_main, singly;
  for (const ObjectId& object : objects) {
    const Candidates candidates = CandidatesFor(object);
    (candidates.ask_main && candidates.peers.empty() ? from_main : singly).push_back(object);
  }
  if (!from_main.empty()) QUADFS_TRY(main_->FetchBundle(from_main, deadline, sink));
  for (const ObjectId& object : singly) {
    if (deadline.Passed()) return Error(ErrorCode::kTimedOut, "a bundle did not arrive in time");
    std::vector<std::byte> content;
    auto fetched = Fetch(object, 0, 1, deadline, {},
                         [&](uint64_t, std::span<const std::byte> block) -> Result<void> {
                           content.assign(block.begin(), block.end());
                           return {};
                         });
    auto taken =
        fetched.ok() ? sink(object, std::move(content)) : sink(object, std::move(fetched).error());
    if (!taken.ok()) return taken;
  }
  return {};
}

}  // namespace quadfs::fs
