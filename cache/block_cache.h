#pragma once

#include <cstdint>
#include <memory>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cache/index_store.h"
#include "cache/manifest.h"
#include "transport/base/ids.h"
#include "transport/base/result.h"

namespace quadfs::cache {

class BlockCache;

/// A pinned object of the cache: while one lives, the object is not evicted. Shared by all who
/// have the file open. Threads: every method may be called concurrently.
///
/// States: *partial* (blocks come one by one), *complete* (whole and checked; may be passed through),
/// *dirty* (a local program changes it; only this machine has it; never evicted; no block of it is
/// served until it is sealed).
class CacheObject {
 public:
  virtual ~CacheObject() = default;
  virtual ObjectId id() const = 0;       ///< Of a dirty object: the version it was made from.
  virtual uint64_t size_bytes() const = 0;  ///< Of a dirty object: what fstat says now.
  virtual int fd() const = 0;            ///< Open read-write; valid while the object lives.
  virtual std::string path() const = 0;  ///< For people and tests.

  virtual bool dirty() const = 0;
  virtual bool complete() const = 0;
  virtual bool HasBlock(uint64_t index) const = 0;
  virtual uint64_t present_bytes() const = 0;

  /// The version's manifest, once set. A partial object takes blocks only after it.
  virtual std::shared_ptr<const Manifest> manifest() const = 0;
  /// Errors: kCorruption if `manifest.Root()` is not the root the object was opened with.
  virtual Result<void> SetManifest(Manifest manifest) = 0;

  /// Checks the block against the manifest and stores it; readable at once, "present" on disk only
  /// after its data is. Storing a present block again is fine. Errors: kCorruption (block does not
  /// match: nothing stored), kNoSpace (read around the cache), kIo, kStale (object is dirty).
  virtual Result<void> StoreBlock(uint64_t index, std::span<const std::byte> block) = 0;

  /// Reads a present block whole and checks it. Errors: kNotFound (not present), kCorruption (the
  /// block was dropped: fetch it again), kIo.
  virtual Result<std::vector<std::byte>> ReadBlock(uint64_t index) = 0;

  /// Of a complete object: true if the file on disk is as it was when it was completed (size, mtime,
  /// ctime); otherwise reads and checks it all, drops bad blocks (it is partial then) and returns
  /// whether it is still complete. Call before each passthrough open.
  virtual Result<bool> VerifyIfChanged() = 0;

  /// A complete object (or a new empty one) becomes dirty: durable before it returns. Idempotent.
  virtual Result<void> MakeDirty() = 0;
  /// A partial object becomes dirty too: its missing blocks are still filled by StoreBlock from the
  /// old version until complete; `NoteWrite` tells which blocks a program overwrote meanwhile
  /// (those are then present and never overwritten by StoreBlock).
  virtual Result<void> MakePartialDirty() = 0;
  virtual void NoteWrite(uint64_t offset, uint64_t length) = 0;
  virtual Result<void> NoteTruncate(uint64_t new_size) = 0;

  /// fdatasync of the data and of its row. Errors: kIo, remembered for ever for this object.
  virtual Result<void> Sync() = 0;

  /// Computes the manifest of a dirty, complete file as it is now, without changing its state.
  virtual Result<Manifest> ComputeManifest() = 0;
  /// The published version: the dirty object is now (inode, `generation`) with `manifest`; complete,
  /// durable, and *unsaved* (not evicted) until MarkSaved. If `still_open_for_write`, it stays dirty
  /// as well (later writes may follow) and blocks are served only if they still match.
  virtual Result<void> Seal(Generation generation, Manifest manifest, bool still_open_for_write) = 0;
  /// Another place has it, verified: it may be evicted.
  virtual Result<void> MarkSaved() = 0;
  virtual bool unsaved() const = 0;
  /// Deletes it when the last reference goes (file removed, or version superseded).
  virtual void Discard() = 0;
};
using ObjectRef = std::shared_ptr<CacheObject>;

/// Blocks of object versions in one directory: sparse slot files, one per object, and rows in an
/// IndexStore. It knows no names and no network. Evicts the least recently used objects that are
/// neither pinned, dirty nor unsaved, above `capacity_bytes` or below the free-space floor.
/// Threads: every method may be called concurrently; evictions and syncs run on a thread of its own.
class BlockCache {
 public:
  struct Options {
    std::string directory;
    uint64_t capacity_bytes = uint64_t{1} << 40;
    uint64_t free_floor_bytes = uint64_t{1} << 30;  ///< The disk keeps at least this much free.
  };
  struct Status {
    uint64_t used_bytes = 0, capacity_bytes = 0, objects = 0, unsaved_objects = 0, dirty_objects = 0,
             unsaved_bytes = 0, evicted_objects = 0, corrupt_blocks = 0;
    std::string problem;  ///< Disk full, EIO, directory gone; empty if well.
  };

  /// Recovers what a crash left: rows without files, files without rows, blocks not yet synced.
  static Result<std::unique_ptr<BlockCache>> Open(Options options, IndexStore& index);
  virtual ~BlockCache() = default;

  /// The object if any of it is here. Errors: kNotFound.
  virtual Result<ObjectRef> Find(const ObjectId& object) = 0;
  /// The object, made partial and empty if absent. `root`: from the inode row.
  virtual Result<ObjectRef> FindOrCreate(const ObjectId& object, uint64_t size_bytes,
                                         const Checksum& root) = 0;
  /// A new empty dirty file for an inode; `base`: the version it will replace.
  virtual Result<ObjectRef> CreateDirty(InodeId inode, Generation base) = 0;
  /// The dirty object of an inode, if any. Errors: kNotFound.
  virtual Result<ObjectRef> FindDirty(InodeId inode) = 0;
  /// All dirty or unsaved objects, for recovery at start and for the write-back queue.
  virtual Result<std::vector<ObjectRef>> Unsaved() = 0;

  /// Drops a clean object's data (a hole in the LRU order). kBusy: pinned, dirty or unsaved.
  virtual Result<void> Evict(const ObjectId& object) = 0;
  /// A pinned object is not evicted, also across restarts.
  virtual Result<void> SetPinned(const ObjectId& object, bool pinned) = 0;
  /// Every object with its present bytes, for reports; stops when `row` returns false.
  virtual void ForEach(const std::function<bool(const ObjectId&, uint64_t present_bytes,
                                                uint64_t size_bytes)>& row) const = 0;
  virtual Status status() const = 0;
};

}  // namespace quadfs::cache
