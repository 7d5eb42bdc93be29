#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/block_cache.h"
#include "cache/tree_store.h"
#include "fs/data/fetcher.h"
#include "metadata/view.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// An object that a hub reads for somebody: from its store, else from its cache, which fetches what
/// is missing. Threads: one.
struct OpenObject {
  ObjectId object;
  uint64_t size_bytes = 0;
  bool stored = false;      ///< The store holds it.
  cache::ObjectRef cached;  ///< Set when it is not read from the store (any more).
};

/// Reads checked blocks for downstream readers. Reads of one block by many share one fetch.
/// Threads: every method may be called concurrently. Lifetime: its parts outlive it.
class ObjectReader {
 public:
  struct Parts {
    const metadata::View& view;
    cache::TreeStore& store;
    cache::BlockCache& cache;
    Fetcher& fetcher;
    BlockSource& source;  ///< Of the fetcher: for manifests of versions that only peers know.
  };
  explicit ObjectReader(Parts parts) : parts_(parts) {}

  /// Errors: kNotFound (not in the namespace, or a version nobody may ask for).
  Result<OpenObject> Open(const ObjectId& object, Deadline deadline);
  /// Begins to fetch what is missing of a range that will be read in order.
  void WillRead(const OpenObject& open, uint64_t first, uint64_t count);
  using PieceSink = std::function<Result<void>(std::span<const std::byte> piece)>;
  Result<std::vector<std::byte>> ReadBlock(OpenObject& open, uint64_t index, Deadline deadline);
  /// The bytes of a block in order, as soon as they are here (the last of them once the block was
  /// checked). If it fails on its way, what was given may be false: the receiver checks it, as all.
  Result<void> PassBlock(OpenObject& open, uint64_t index, Deadline deadline,
                         const PieceSink& piece);
  Result<cache::Manifest> ManifestOf(OpenObject& open, Deadline deadline);
  /// Brings those that are small and missing in one request.
  void FetchTogether(const std::vector<OpenObject>& objects, Deadline deadline);

  uint64_t corrupt_blocks() const { return corrupt_blocks_; }
  /// Last block of the store that was not what it should be; empty: none.
  std::string problem() const;

 private:
  Result<void> LeaveStore(OpenObject& open, const Error& why, Deadline deadline);
  Result<cache::ObjectRef> CacheObjectOf(const ObjectId& object, Deadline deadline);

  const Parts parts_;
  std::atomic<uint64_t> corrupt_blocks_{0};
  mutable Mutex mutex_;
  std::string problem_ QUADFS_GUARDED_BY(mutex_);
};

}  // namespace quadfs::fs
