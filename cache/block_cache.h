#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/index_store.h"
#include "cache/manifest.h"
#include "transport/base/ids.h"
#include "transport/base/result.h"

namespace quadfs::cache {

/// A pinned object of the cache: while one lives, the object is not evicted. Shared by all who
/// have the file open. Threads: every method may be called concurrently.
/// Lifetime: the cache outlives every reference.
///
/// States: *partial* (blocks come one by one), *complete* (whole and checked; may be passed
/// through), *dirty* (a local program changes it; only this machine has it; never evicted),
/// *sealed dirty* (published, but still open for write). Nobody else touches the slot file of an
/// object that is not dirty: utimens, chmod and link change its stat signature and cost a re-check.
class CacheObject {
 public:
  virtual ~CacheObject() = default;
  virtual ObjectId id() const = 0;          ///< Of a dirty object: the version it was made from.
  virtual uint64_t size_bytes() const = 0;  ///< Of a dirty object: what fstat says now.
  /// Read-write; opened at the first call, valid while the object lives. -1: the file cannot be
  /// opened (out of descriptors, disk gone); answer EIO.
  virtual int fd() const = 0;
  virtual std::string path() const = 0;  ///< For people and tests.

  virtual bool dirty() const = 0;
  virtual bool complete() const = 0;
  virtual bool HasBlock(uint64_t index) const = 0;
  virtual uint64_t present_bytes() const = 0;

  /// The version's manifest, once set; of a dirty object, that of id(), if known.
  virtual std::shared_ptr<const Manifest> manifest() const = 0;
  /// A partial object takes blocks only after it. Setting it again is fine.
  /// Errors: kCorruption if its root or size is not what the object was opened with.
  virtual Result<void> SetManifest(Manifest manifest) = 0;

  /// Checks the block against the manifest and stores it; readable at once, "present" on disk only
  /// after its data is. Storing a present block again is fine. Errors: kCorruption (block does not
  /// match: nothing stored), kNoSpace (read around the cache), kIo, kStale (object is dirty),
  /// kInvalidArgument (no manifest yet, or no such block).
  virtual Result<void> StoreBlock(uint64_t index, std::span<const std::byte> block) = 0;

  /// Reads a present block whole and checks it. Errors: kNotFound (not present), kCorruption (the
  /// block was dropped: fetch it again), kStale (dirty, and no longer what the manifest says), kIo.
  virtual Result<std::vector<std::byte>> ReadBlock(uint64_t index) = 0;

  /// Of a complete object: true if the file on disk is as it was when it was completed (size,
  /// mtime, ctime, inode); otherwise reads and checks it all, drops bad blocks (it is partial then)
  /// and returns whether it is still complete. Call before each passthrough open. A dirty object is
  /// what its writers made of it: returns complete().
  virtual Result<bool> VerifyIfChanged() = 0;

  /// A complete object becomes dirty, durably before it returns (one IndexStore::Sync). Idempotent.
  /// Errors: kStale (another object of the inode is dirty: FindDirty), kInvalidArgument (partial).
  virtual Result<void> MakeDirty() = 0;
  /// A partial object (with its manifest set) becomes dirty too: its missing blocks are still
  /// filled by StoreBlock from the old version until complete(). Until then change it through
  /// Write and NoteTruncate only; afterwards like any dirty file.
  virtual Result<void> MakePartialDirty() = 0;
  /// Writes into a partially dirty file; a block it covers wholly is not filled any more.
  /// Errors: kNotFound (it covers part of a block that is not here: fetch and store that block
  /// first, then repeat), kInvalidArgument (not dirty), kNoSpace, kIo.
  virtual Result<void> Write(uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// For a caller that wrote by itself while no StoreBlock was under way: call after the pwrite.
  virtual void NoteWrite(uint64_t offset, uint64_t length) = 0;
  /// Truncates or extends a dirty file; what it cuts off is not filled any more.
  virtual Result<void> NoteTruncate(uint64_t new_size) = 0;

  /// fdatasync of the data, then its row durable. Errors: kIo, remembered for ever for this object.
  virtual Result<void> Sync() = 0;

  /// Computes the manifest of a dirty, complete file as it is now, without changing its state.
  /// Errors: kBusy (blocks are still missing), kStale (it shrank meanwhile), kIo.
  virtual Result<Manifest> ComputeManifest() = 0;
  /// The published version: the dirty object is now (inode, `generation`) with `manifest`, which
  /// ComputeManifest gave; complete and *unsaved* (not evicted) until MarkSaved. It survives a
  /// killed process at once and a power cut about `sync_interval` later, or after Sync. If
  /// `still_open_for_write`, it stays dirty as well (later writes may follow) and blocks are served
  /// only if they still match. Sealing again as the same version ends the dirty state.
  /// Errors: kExists (that version is here as another object), kStale (size is not the manifest's).
  virtual Result<void> Seal(Generation generation, Manifest manifest,
                            bool still_open_for_write) = 0;
  /// Another place has it, verified: it may be evicted.
  virtual Result<void> MarkSaved() = 0;
  /// Nobody else has it: kept until MarkSaved. Errors: kInvalidArgument (not complete), kIo.
  virtual Result<void> MarkUnsaved() = 0;
  virtual bool unsaved() const = 0;
  /// Forgets it at once (file removed, or version superseded); its file goes with the last
  /// reference.
  virtual void Discard() = 0;
};
using ObjectRef = std::shared_ptr<CacheObject>;

/// Blocks of object versions in one directory: sparse slot files, one per object, and rows in an
/// IndexStore. It knows no names and no network. Evicts the least recently used objects that are
/// neither pinned, dirty, unsaved nor open, above `capacity_bytes` or below the free-space floor.
/// Threads: every method may be called concurrently; syncs run on a thread of its own.
class BlockCache {
 public:
  struct Options {
    std::string directory;
    uint64_t capacity_bytes = uint64_t{1} << 40;
    uint64_t free_floor_bytes = uint64_t{1} << 30;  ///< The disk keeps at least this much free.
    /// Stored blocks become durable within this time, or when so many wait, in one batch.
    std::chrono::milliseconds sync_interval{200};
    uint64_t sync_blocks = 64;
    /// fdatasync, returning 0 or errno; tests put one here that fails or remembers.
    std::function<int(int fd)> sync_data;
    /// Identity of this run of the kernel; empty: the kernel's own. Page cache outlives processes,
    /// not boots.
    std::string boot_id;
  };
  struct Status {
    uint64_t used_bytes = 0, capacity_bytes = 0, objects = 0, unsaved_objects = 0,
             dirty_objects = 0, unsaved_bytes = 0, evicted_objects = 0, corrupt_blocks = 0;
    std::string problem;  ///< Disk full, EIO, what recovery could not save; empty if well.
  };

  /// Recovers what a crash left: rows without files, files without rows, blocks not yet synced.
  /// Files that no readable row names, although some row was unreadable or the index is not the one
  /// this directory was written with, are set aside below `lost/`, never deleted.
  /// Errors: kBusy (another process has the directory), kIo, kPermission.
  static Result<std::unique_ptr<BlockCache>> Open(Options options, IndexStore& index);
  virtual ~BlockCache() = default;

  /// The object if any of it is here. Errors: kNotFound.
  virtual Result<ObjectRef> Find(const ObjectId& object) = 0;
  /// The object, made partial and empty if absent. `root`: from the inode row. An evictable object
  /// of another size or root is replaced. Errors: kStale (such an object is open or unsaved), kIo.
  virtual Result<ObjectRef> FindOrCreate(const ObjectId& object, uint64_t size_bytes,
                                         const Checksum& root) = 0;
  /// A new empty dirty file for an inode; `base`: the version it will replace. Survives a killed
  /// process; a power cut only after Sync, like a new file of any local file system.
  /// Errors: kExists (the inode has a dirty object: FindDirty), kNoSpace, kIo.
  virtual Result<ObjectRef> CreateDirty(InodeId inode, Generation base) = 0;
  /// The dirty object of an inode, if any. Errors: kNotFound.
  virtual Result<ObjectRef> FindDirty(InodeId inode) = 0;
  /// All dirty or unsaved objects, for recovery at start and for the write-back queue.
  virtual Result<std::vector<ObjectRef>> Unsaved() = 0;

  /// Drops a clean object's data (a hole in the LRU order). kBusy: open, pinned, dirty or unsaved.
  virtual Result<void> Evict(const ObjectId& object) = 0;
  /// A pinned object is not evicted, also across restarts.
  virtual Result<void> SetPinned(const ObjectId& object, bool pinned) = 0;
  /// Every object with its present bytes, for reports; stops when `row` returns false.
  virtual void ForEach(const std::function<bool(const ObjectId&, uint64_t present_bytes,
                                                uint64_t size_bytes)>& row) const = 0;
  /// Waits until everything stored so far is durable (drain at shutdown, tests).
  virtual void Flush() = 0;
  virtual Status status() const = 0;
};

}  // namespace quadfs::cache
