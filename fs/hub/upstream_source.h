#pragma once

#include <map>
#include <utility>
#include <vector>

#include "fs/data/block_source.h"
#include "fs/hub/want_broker.h"
#include "metadata/view.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// Where a hub gets what it lacks, in this order: a node of its own campus that holds it (by a
/// want), then at a branch main (by GET), at main the hub of a campus that has it (by a want). One
/// that fails is followed by the next, from the block where it stopped; one whose blocks were
/// damaged comes last for a while.
/// Threads and errors: as BlockSource. Lifetime: view, broker and main outlive it.
class UpstreamSource final : public BlockSource {
 public:
  enum class Scope : uint8_t {
    kEverywhere,
    kOwnNodes,  ///< To answer main's want: asking main again would go in a circle.
  };
  /// `main`: at a branch; nullptr at main.
  UpstreamSource(CampusId own_campus, Scope scope, const metadata::View& view, WantBroker& broker,
                 BlockSource* main)
      : own_campus_(own_campus), scope_(scope), view_(view), broker_(broker), main_(main) {}

  Result<cache::Manifest> FetchManifest(const ObjectId& object, Deadline deadline) override;
  Result<void> FetchBlocks(const ObjectId& object, uint64_t first, uint64_t count,
                           Deadline deadline, const BlockSink& sink) override;
  Result<void> FetchWithManifest(const ObjectId& object, uint64_t first, uint64_t count,
                                 Deadline deadline, const ManifestSink& manifest_sink,
                                 const BlockSink& sink) override;
  Result<void> FetchBundle(const std::vector<ObjectId>& objects, Deadline deadline,
                           const ObjectSink& sink) override;

 private:
  using Peer = WantBroker::Peer;
  static constexpr std::chrono::seconds kShun{60};  ///< After a damaged block.
  static constexpr size_t kMaxShunned = 4096;
  /// Peers to want it from; `ask_main`: then main.
  struct Candidates {
    std::vector<Peer> peers;
    bool ask_main = false;
  };
  Candidates CandidatesFor(const ObjectId& object) const;
  Result<void> Fetch(const ObjectId& object, uint64_t first, uint64_t count, Deadline deadline,
                     const ManifestSink& manifest_sink, const BlockSink& sink);
  Result<void> Ask(const Peer* peer, const WantBroker::Wanted& wanted, Deadline deadline,
                   const ManifestSink& manifest_sink, const BlockSink& sink);
  bool Shunned(const ObjectId& object, const Peer& peer) const;
  void Shun(const ObjectId& object, const Peer& peer);

  const CampusId own_campus_;
  const Scope scope_;
  const metadata::View& view_;
  WantBroker& broker_;
  BlockSource* const main_;
  mutable Mutex mutex_;
  std::map<std::pair<ObjectId, Peer>, Clock::TimePoint> shunned_ QUADFS_GUARDED_BY(mutex_);
};

}  // namespace quadfs::fs
