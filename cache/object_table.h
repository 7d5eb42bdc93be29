#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cache/object_row.h"
#include "transport/base/mutex.h"

namespace quadfs::cache {

class CachedObject;

/// Every object of the cache in memory, small (some 110 bytes): who is open, what may be evicted
/// and in which order, and the sums. It does no I/O.
///
/// Threads: every method may be called concurrently; its mutex is a leaf.
/// Lifetime: an Entry lives while it is in the table or a user holds it (Attach … Release).
class ObjectTable {
 public:
  struct Entry {
    RowKey key;
    uint64_t slot = 0;
    uint64_t size_bytes = 0;
    uint64_t bytes = 0;  ///< Disk space it is charged for.
    uint64_t last_use = 0;
    uint8_t flags = 0;  ///< ObjectRow::Flag.
    bool touched = false, listed = false, detached = false;
    Entry* previous = nullptr;
    Entry* next = nullptr;
  };
  struct Sums {
    uint64_t used_bytes = 0, objects = 0, unsaved_objects = 0, dirty_objects = 0, unsaved_bytes = 0;
  };

  ObjectTable();
  ~ObjectTable();

  /// A new entry, not open. An entry of the same key must not exist.
  Entry* Insert(const Entry& entry);
  /// The open object, if one is alive.
  std::shared_ptr<CachedObject> FindOpen(const RowKey& key) const;
  /// Entry by key, for one who holds the inode's row lock.
  Entry* Find(const RowKey& key) const;
  std::optional<RowKey> FindDirty(InodeId inode) const;

  /// The object is open; it counts as a user until Release.
  void Attach(Entry* entry, const std::shared_ptr<CachedObject>& object);
  /// A user went away. `keep`: a row exists; otherwise the entry goes with its last user.
  /// Returns whether the entry is gone and its file is to be removed.
  bool Release(Entry* entry, bool keep);

  void Rekey(Entry* entry, const RowKey& key, uint8_t flags, uint64_t size_bytes);
  void SetFlags(Entry* entry, uint8_t flags);
  void Charge(Entry* entry, uint64_t bytes);
  void Refund(Entry* entry, uint64_t bytes);
  void SetBytes(Entry* entry, uint64_t bytes);
  /// Takes it out of the index of keys; its users keep it.
  void Detach(Entry* entry);
  /// The same for what has this key, if anything: an object without a row that is about to end.
  void DetachKey(const RowKey& key);

  /// The least recently used object that may be evicted.
  std::optional<RowKey> Victim() const;
  /// Removes it if it may be evicted; as it was.
  std::optional<Entry> TakeVictim(const RowKey& key);
  enum class Evictable { kAbsent, kNo, kYes };
  Evictable State(const RowKey& key) const;

  /// Objects used since their row says so, at most `limit`, which count as written now.
  std::vector<std::pair<RowKey, uint64_t>> TakeTouched(size_t limit);
  std::vector<RowKey> WithFlags(uint8_t any_of) const;
  std::vector<Entry> All() const;
  Sums sums() const;
  /// After recovery, in LRU order: later uses are younger.
  void StartClock(uint64_t last_use);
  /// The next tick of the clock of uses.
  uint64_t Use();

 private:
  struct ByKey {
    using is_transparent = void;
    size_t operator()(const RowKey& key) const {
      return std::hash<ObjectId>{}({key.inode, key.generation}) ^ (key.dirty ? 1U : 0U);
    }
    size_t operator()(const Entry* entry) const { return (*this)(entry->key); }
    bool operator()(const Entry* a, const Entry* b) const { return a->key == b->key; }
    bool operator()(const RowKey& a, const Entry* b) const { return a == b->key; }
    bool operator()(const Entry* a, const RowKey& b) const { return a->key == b; }
  };
  struct Open {
    std::weak_ptr<CachedObject> object;
    uint32_t users = 0;
  };
  Entry* Lookup(const RowKey& key) const QUADFS_REQUIRES(mutex_);
  void Account(const Entry& entry, bool add) QUADFS_REQUIRES(mutex_);
  void Relist(Entry* entry) QUADFS_REQUIRES(mutex_);
  void Unlist(Entry* entry) QUADFS_REQUIRES(mutex_);
  void Forget(Entry* entry) QUADFS_REQUIRES(mutex_);
  void DetachLocked(Entry* entry) QUADFS_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::unordered_set<Entry*, ByKey, ByKey> entries_ QUADFS_GUARDED_BY(mutex_);
  std::unordered_map<const Entry*, Open> open_ QUADFS_GUARDED_BY(mutex_);
  std::unordered_map<InodeId, Entry*> dirty_ QUADFS_GUARDED_BY(mutex_);
  Entry oldest_ QUADFS_GUARDED_BY(mutex_);  ///< Head of the ring of those that may be evicted.
  uint64_t use_clock_ QUADFS_GUARDED_BY(mutex_) = 0;
  Sums sums_ QUADFS_GUARDED_BY(mutex_);
};

}  // namespace quadfs::cache
