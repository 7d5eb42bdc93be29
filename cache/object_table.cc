#include "cache/object_table.h"

#include <algorithm>
#include <cassert>

namespace quadfs::cache {
namespace {
constexpr uint8_t kNeverEvicted = ObjectRow::kDirty | ObjectRow::kUnsaved | ObjectRow::kPinned;
}  // namespace

ObjectTable::ObjectTable() { oldest_.previous = oldest_.next = &oldest_; }

ObjectTable::~ObjectTable() {
  for (Entry* entry : entries_) delete entry;
}

ObjectTable::Entry* ObjectTable::Lookup(const RowKey& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : *found;
}

void ObjectTable::Account(const Entry& entry, bool add) {
  const auto apply = [add](uint64_t& sum, uint64_t value) { add ? sum += value : sum -= value; };
  apply(sums_.used_bytes, entry.bytes);
  if (entry.detached) return;
  apply(sums_.objects, 1);
  if ((entry.flags & ObjectRow::kDirty) != 0) apply(sums_.dirty_objects, 1);
  if ((entry.flags & ObjectRow::kUnsaved) != 0) {
    apply(sums_.unsaved_objects, 1);
    apply(sums_.unsaved_bytes, entry.bytes);
  }
}

void ObjectTable::Unlist(Entry* entry) {
  if (!entry->listed) return;
  entry->previous->next = entry->next;
  entry->next->previous = entry->previous;
  entry->listed = false;
}

// Puts it at the young end of the ring if it may be evicted.
void ObjectTable::Relist(Entry* entry) {
  const bool evictable =
      (entry->flags & kNeverEvicted) == 0 && !entry->detached && open_.find(entry) == open_.end();
  if (!evictable) return Unlist(entry);
  if (entry->listed) return;
  entry->previous = oldest_.previous;
  entry->next = &oldest_;
  oldest_.previous->next = entry;
  oldest_.previous = entry;
  entry->listed = true;
}

void ObjectTable::Forget(Entry* entry) {
  Unlist(entry);
  Account(*entry, /*add=*/false);
  if (!entry->detached) {
    entries_.erase(entries_.find(entry->key));
    const auto dirty = dirty_.find(entry->key.inode);
    if (dirty != dirty_.end() && dirty->second == entry) dirty_.erase(dirty);
  }
  delete entry;
}

ObjectTable::Entry* ObjectTable::Insert(const Entry& entry) {
  MutexLock lock(mutex_);
  auto* const made = new Entry(entry);
  const bool inserted = entries_.insert(made).second;
  assert(inserted);
  static_cast<void>(inserted);
  if ((made->flags & ObjectRow::kDirty) != 0) dirty_[made->key.inode] = made;
  Account(*made, /*add=*/true);
  Relist(made);
  return made;
}

std::shared_ptr<CachedObject> ObjectTable::FindOpen(const RowKey& key) const {
  MutexLock lock(mutex_);
  const auto found = open_.find(Lookup(key));
  return found == open_.end() ? nullptr : found->second.object.lock();
}

ObjectTable::Entry* ObjectTable::Find(const RowKey& key) const {
  MutexLock lock(mutex_);
  return Lookup(key);
}

std::optional<RowKey> ObjectTable::FindDirty(InodeId inode) const {
  MutexLock lock(mutex_);
  const auto found = dirty_.find(inode);
  if (found == dirty_.end()) return std::nullopt;
  return found->second->key;
}

void ObjectTable::Attach(Entry* entry, const std::shared_ptr<CachedObject>& object) {
  MutexLock lock(mutex_);
  Open& open = open_[entry];
  open.object = object;
  ++open.users;
  Unlist(entry);
}

bool ObjectTable::Release(Entry* entry, bool keep) {
  MutexLock lock(mutex_);
  const auto found = open_.find(entry);
  if (--found->second.users > 0) return false;
  open_.erase(found);
  if (entry->detached || !keep) {
    Forget(entry);
    return true;
  }
  entry->last_use = ++use_clock_;
  entry->touched = true;
  Relist(entry);
  return false;
}

void ObjectTable::Rekey(Entry* entry, const RowKey& key, uint8_t flags, uint64_t size_bytes) {
  MutexLock lock(mutex_);
  Account(*entry, /*add=*/false);
  entries_.erase(entries_.find(entry->key));
  const auto dirty = dirty_.find(entry->key.inode);
  if (dirty != dirty_.end() && dirty->second == entry) dirty_.erase(dirty);
  entry->key = key;
  entry->flags = flags;
  entry->size_bytes = size_bytes;
  entries_.insert(entry);
  if ((flags & ObjectRow::kDirty) != 0) dirty_[key.inode] = entry;
  Account(*entry, /*add=*/true);
  Relist(entry);
}

void ObjectTable::SetFlags(Entry* entry, uint8_t flags) {
  MutexLock lock(mutex_);
  Account(*entry, /*add=*/false);
  entry->flags = flags;
  Account(*entry, /*add=*/true);
  Relist(entry);
}

void ObjectTable::Charge(Entry* entry, uint64_t bytes) {
  MutexLock lock(mutex_);
  Account(*entry, /*add=*/false);
  entry->bytes += bytes;
  Account(*entry, /*add=*/true);
}

void ObjectTable::Refund(Entry* entry, uint64_t bytes) {
  MutexLock lock(mutex_);
  Account(*entry, /*add=*/false);
  entry->bytes -= std::min(bytes, entry->bytes);
  Account(*entry, /*add=*/true);
}

void ObjectTable::SetBytes(Entry* entry, uint64_t bytes) {
  MutexLock lock(mutex_);
  Account(*entry, /*add=*/false);
  entry->bytes = bytes;
  Account(*entry, /*add=*/true);
}

void ObjectTable::Detach(Entry* entry) {
  MutexLock lock(mutex_);
  DetachLocked(entry);
}

void ObjectTable::DetachKey(const RowKey& key) {
  MutexLock lock(mutex_);
  if (Entry* const entry = Lookup(key)) DetachLocked(entry);
}

void ObjectTable::DetachLocked(Entry* entry) {
  if (entry->detached) return;
  Account(*entry, /*add=*/false);
  Unlist(entry);
  entries_.erase(entries_.find(entry->key));
  const auto dirty = dirty_.find(entry->key.inode);
  if (dirty != dirty_.end() && dirty->second == entry) dirty_.erase(dirty);
  entry->detached = true;
  Account(*entry, /*add=*/true);
}

std::optional<RowKey> ObjectTable::Victim() const {
  MutexLock lock(mutex_);
  if (oldest_.next == &oldest_) return std::nullopt;
  return oldest_.next->key;
}

std::optional<ObjectTable::Entry> ObjectTable::TakeVictim(const RowKey& key) {
  MutexLock lock(mutex_);
  Entry* const entry = Lookup(key);
  if (entry == nullptr || !entry->listed) return std::nullopt;
  const Entry taken = *entry;
  Forget(entry);
  return taken;
}

ObjectTable::Evictable ObjectTable::State(const RowKey& key) const {
  MutexLock lock(mutex_);
  const Entry* const entry = Lookup(key);
  if (entry == nullptr) return Evictable::kAbsent;
  return entry->listed ? Evictable::kYes : Evictable::kNo;
}

// Releases put objects at the young end, so those not yet written are together there.
std::vector<std::pair<RowKey, uint64_t>> ObjectTable::TakeTouched(size_t limit) {
  MutexLock lock(mutex_);
  std::vector<std::pair<RowKey, uint64_t>> taken;
  for (Entry* entry = oldest_.previous; entry != &oldest_ && entry->touched && taken.size() < limit;
       entry = entry->previous) {
    entry->touched = false;
    taken.emplace_back(entry->key, entry->last_use);
  }
  return taken;
}

std::vector<RowKey> ObjectTable::WithFlags(uint8_t any_of) const {
  MutexLock lock(mutex_);
  std::vector<RowKey> keys;
  for (const Entry* entry : entries_) {
    if ((entry->flags & any_of) != 0) keys.push_back(entry->key);
  }
  return keys;
}

std::vector<ObjectTable::Entry> ObjectTable::All() const {
  MutexLock lock(mutex_);
  std::vector<Entry> all;
  all.reserve(entries_.size());
  for (const Entry* entry : entries_) all.push_back(*entry);
  return all;
}

ObjectTable::Sums ObjectTable::sums() const {
  MutexLock lock(mutex_);
  return sums_;
}

void ObjectTable::StartClock(uint64_t last_use) {
  MutexLock lock(mutex_);
  use_clock_ = std::max(use_clock_, last_use);
}

uint64_t ObjectTable::Use() {
  MutexLock lock(mutex_);
  return ++use_clock_;
}

}  // namespace quadfs::cache
