#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/tree_store.h"
#include "fs/hub/store_tree.h"
#include "metadata/hub.h"
#include "transport/base/mutex.h"
#include "transport/server.h"

namespace quadfs::fs {

/// Takes uploads into the campus's store: announce, blocks, commit. Each may be repeated, also
/// after a crash of either side at any point. A version is in the store only after it was read back
/// and checked; its location is in the log before the sender hears that it may forget it. Threads:
/// every method may be called concurrently. Lifetime: its parts outlive it.
class Ingest {
 public:
  struct Range {
    ObjectId object;
    uint64_t first = 0, count = 0;
  };
  struct State {
    bool held = false;
    std::vector<std::pair<uint64_t, uint64_t>> missing;  ///< First block and count.
  };
  /// Called once a version is in the store, before its location is told.
  using OnStored = std::function<Result<void>(const ObjectId&)>;

  Ingest(CampusId campus, metadata::Hub& hub, cache::TreeStore& store, StoreTree& tree,
         OnStored on_stored);

  /// Errors: kStale (removed or superseded: drop it), kBusy (this hub has not heard of that version
  /// yet: later), kCorruption (not the version that was published), kNoSpace, kUnavailable.
  Result<State> Announce(const ObjectId& object, const cache::Manifest& manifest,
                         Deadline deadline);
  /// Errors: kNotFound (announce it again), kCorruption, kNoSpace.
  Result<void> TakeBlocks(transport::Request& request, const Range& range);
  /// Errors: kNotFound (announce it again), kStale, kUnavailable (stored, but its location is not
  /// in the log yet: commit again).
  Result<void> Commit(const ObjectId& object, Deadline deadline);
  /// All three in one: the body is manifest and blocks.
  Result<void> TakeWhole(transport::Request& request, const Range& range);

  /// What the store holds and lost a merge becomes the conflict copy's, passed on and told like an
  /// upload. Another version: nothing. Errors: kBusy (this hub has not heard of the copy's version
  /// yet), those of the store (kCorruption: it was damaged), kUnavailable.
  Result<void> CarryFork(const ObjectId& held, Deadline deadline);

  /// Tells the log that the store holds it, unless the log knows. Errors: as Hub::Submit.
  Result<void> Locate(const ObjectId& object, Deadline deadline);

 private:
  using IncomingRef = std::shared_ptr<cache::Incoming>;
  static constexpr size_t kMaxUploads = 4096;  ///< Kept in hand; others are resumed from disk.
  static constexpr size_t kMaxRanges = 1024;   ///< Named in one answer.
  Result<void> CheckWanted(const ObjectId& object, const cache::Manifest& manifest) const;
  Result<void> CheckCurrent(const ObjectId& object) const;
  Result<void> CopyHeld(const ObjectId& from, const ObjectId& to);
  Result<IncomingRef> Begin(const ObjectId& object, const cache::Manifest& manifest);
  void CopyUnchanged(const ObjectId& object, cache::Incoming& incoming, Deadline deadline) const;
  IncomingRef Find(const ObjectId& object);
  void Forget(const ObjectId& object);

  const CampusId campus_;
  metadata::Hub& hub_;
  cache::TreeStore& store_;
  StoreTree& tree_;
  const OnStored on_stored_;
  Mutex mutex_;
  std::unordered_map<ObjectId, IncomingRef> uploads_ QUADFS_GUARDED_BY(mutex_);
};

}  // namespace quadfs::fs
