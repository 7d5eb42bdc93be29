#include "metadata/state_writer.h"

#include <algorithm>

#include "metadata/row_bytes.h"

namespace quadfs::metadata {
namespace {

constexpr InodeId kDetachedRow{0};  // Its total row lists the directories left out of totals.
constexpr size_t kMaxDetached = 100000;

std::string EncodeDetached(const std::set<InodeId>& detached) {
  RowEncoder value;
  value.Byte(1);
  for (const InodeId inode : detached) value.Little(inode.value);
  return value.Take();
}

Result<std::set<InodeId>> DecodeDetached(const std::optional<std::string>& value) {
  std::set<InodeId> detached;
  if (!value) return detached;
  RowDecoder decoder(*value);
  if (decoder.Byte() != 1 || value->size() % 8 != 1) {
    return Error(ErrorCode::kCorruption, "list of directories left out of totals is malformed");
  }
  while (!decoder.AtEnd()) detached.insert(InodeId(decoder.Little<uint64_t>()));
  return detached;
}

Totals OneDirectory() {
  Totals totals;
  totals.directories = 1;
  return totals;
}

Totals OneConflict() {
  Totals totals;
  totals.conflicts = 1;
  return totals;
}

// Unsigned arithmetic wraps, so parts may come and go in any order.
void Apply(Totals& totals, const Totals& part, bool add) {
  const auto apply = [add](uint64_t& number, uint64_t by) { number += add ? by : 0 - by; };
  apply(totals.files, part.files);
  apply(totals.directories, part.directories);
  apply(totals.bytes, part.bytes);
  apply(totals.conflicts, part.conflicts);
  for (const auto& [campus, bytes] : part.campus_bytes) {
    uint64_t& number = totals.campus_bytes[campus];
    apply(number, bytes);
    if (number == 0) totals.campus_bytes.erase(campus);
  }
}

}  // namespace

const TotalsCache::Directory* TotalsCache::Find(InodeId directory) const {
  const auto found = directories_.find(directory);
  return found == directories_.end() ? nullptr : &found->second;
}

void TotalsCache::Put(InodeId directory, const Directory& value) {
  if (directories_.size() >= capacity_ && !directories_.contains(directory)) directories_.clear();
  directories_.insert_or_assign(directory, value);
}

struct StateWriter::InodeRow {
  bool exists = false;
  bool is_directory = false;
  InodeId parent;
  Totals part;  // Without what a directory holds.
  bool operator==(const InodeRow&) const = default;
};

StateWriter::StateWriter(const RowReader& base, TotalsCache& cache) : rows_(base), cache_(cache) {}

Result<std::optional<std::string>> StateWriter::Read(const RowKey& key) const {
  return rows_.Read(key);
}

Result<void> StateWriter::ScanPrefix(const RowKey& prefix, const RowKey& from,
                                     const RowCallback& row) const {
  return rows_.ScanPrefix(prefix, from, row);
}

Result<void> StateWriter::SetAll(const std::vector<RowChange>& changes) {
  for (const RowChange& change : changes) QUADFS_TRY(Set(change));
  return {};
}

Result<void> StateWriter::Set(const RowChange& change) {
  const auto family = FamilyOf(change.key);
  if (!family) return Error(ErrorCode::kCorruption, "row key names no family");
  if (*family == Family::kTotal) return {};
  if (*family == Family::kInode || *family == Family::kLocation) {
    const auto number = ParseNumberKey(change.key);
    if (!number) return Error(ErrorCode::kCorruption, "row key is malformed");
    return *family == Family::kInode ? SetInode(InodeId(*number), change)
                                     : SetLocation(InodeId(*number), change);
  }
  if (*family == Family::kDentry) return SetDentry(change);
  rows_.Set(change.key, change.value);
  return {};
}

Result<StateWriter::InodeRow> StateWriter::Describe(
    InodeId inode, const std::optional<std::string>& row,
    const std::optional<std::string>& locations) const {
  InodeRow result;
  if (!row) return result;
  const Attributes attributes = QUADFS_TRY(DecodeInode(inode, *row));
  result.exists = true;
  result.is_directory = attributes.type == FileType::kDirectory;
  result.parent = attributes.parent;
  if (result.is_directory) {
    result.part.directories = 1;
    return result;
  }
  result.part.files = 1;
  if (attributes.type != FileType::kRegular || attributes.size == 0) return result;
  result.part.bytes = attributes.size;
  if (!locations) return result;
  for (const Location& location : QUADFS_TRY(DecodeLocations(*locations))) {
    if (location.generation == attributes.generation) {
      result.part.campus_bytes[location.campus] = attributes.size;  // Once per campus.
    }
  }
  return result;
}

Result<TotalsCache::Directory*> StateWriter::Load(InodeId directory) {
  const auto found = directories_.find(directory);
  if (found != directories_.end()) return &found->second;
  TotalsCache::Directory loaded;
  if (const TotalsCache::Directory* cached = cache_.Find(directory)) {
    loaded = *cached;
  } else {
    const auto totals = QUADFS_TRY(rows_.base().Read(TotalKey(directory)));
    if (totals) loaded.totals = QUADFS_TRY(DecodeTotals(*totals));
    loaded.stored = totals.has_value();
    const auto row = QUADFS_TRY(rows_.Read(InodeKey(directory)));
    loaded.exists = row.has_value();
    if (row) loaded.parent = QUADFS_TRY(DecodeInode(directory, *row)).parent;
  }
  return &directories_.emplace(directory, std::move(loaded)).first->second;
}

// Ends: attached edges never form a loop.
Result<void> StateWriter::AddToChain(InodeId directory, const Totals& part, bool add) {
  QUADFS_TRY(LoadDetached());
  for (InodeId current = directory; current;) {
    TotalsCache::Directory* loaded = QUADFS_TRY(Load(current));
    Apply(loaded->totals, part, add);
    totals_changed_.insert(current);
    if (!loaded->exists || detached_->contains(current)) break;
    current = loaded->parent;
  }
  return {};
}

Result<bool> StateWriter::ChainReaches(InodeId from, InodeId directory) {
  QUADFS_TRY(LoadDetached());
  for (InodeId current = from; current;) {
    if (current == directory) return true;
    const TotalsCache::Directory* loaded = QUADFS_TRY(Load(current));
    if (!loaded->exists || detached_->contains(current)) break;
    current = loaded->parent;
  }
  return false;
}

Result<void> StateWriter::SetInode(InodeId inode, const RowChange& change) {
  const auto old_row = QUADFS_TRY(Read(change.key));
  std::optional<std::string> locations;
  InodeRow before = QUADFS_TRY(Describe(inode, old_row, locations));
  InodeRow after = QUADFS_TRY(Describe(inode, change.value, locations));
  if (before.part.bytes != 0 || after.part.bytes != 0) {  // Else locations add nothing.
    locations = QUADFS_TRY(Read(LocationKey(inode)));
    before = QUADFS_TRY(Describe(inode, old_row, locations));
    after = QUADFS_TRY(Describe(inode, change.value, locations));
  }
  if (before == after) {
    rows_.Set(change.key, change.value);
    return {};
  }
  QUADFS_TRY(MoveInode(inode, before, after));
  rows_.Set(change.key, change.value);
  return {};
}

Result<void> StateWriter::MoveInode(InodeId inode, const InodeRow& before, const InodeRow& after) {
  if (!before.is_directory && !after.is_directory) {
    if (before.exists) QUADFS_TRY(AddToChain(before.parent, before.part, false));
    if (after.exists) QUADFS_TRY(AddToChain(after.parent, after.part, true));
    return {};
  }
  QUADFS_TRY(LoadDetached());
  Totals carried = QUADFS_TRY(Load(inode))->totals;  // A copy: the chains below change it not.
  Apply(carried, OneDirectory(), true);
  if (detached_->erase(inode) > 0) {
    detached_changed_ = true;
  } else if (before.exists) {
    QUADFS_TRY(AddToChain(before.parent, carried, false));
  }
  TotalsCache::Directory* loaded = QUADFS_TRY(Load(inode));
  loaded->exists = after.exists;
  loaded->parent = after.parent;
  if (after.exists) {
    if (QUADFS_TRY(ChainReaches(after.parent, inode))) {
      if (detached_->size() >= kMaxDetached) {
        return Error(ErrorCode::kCorruption, "too many directories in loops");
      }
      detached_->insert(inode);
      detached_changed_ = true;
    } else {
      QUADFS_TRY(AddToChain(after.parent, carried, true));
    }
  }
  return Reattach();
}

Result<void> StateWriter::SetLocation(InodeId inode, const RowChange& change) {
  const auto old_locations = QUADFS_TRY(Read(change.key));
  const auto row = QUADFS_TRY(Read(InodeKey(inode)));
  const InodeRow before = QUADFS_TRY(Describe(inode, row, old_locations));
  const InodeRow after = QUADFS_TRY(Describe(inode, row, change.value));
  if (before != after) {
    QUADFS_TRY(AddToChain(before.parent, before.part, false));
    QUADFS_TRY(AddToChain(after.parent, after.part, true));
  }
  rows_.Set(change.key, change.value);
  return {};
}

Result<void> StateWriter::SetDentry(const RowChange& change) {
  const auto parts = ParseDentryKey(change.key);
  if (!parts) return Error(ErrorCode::kCorruption, "dentry key is malformed");
  if (IsConflictName(parts->name)) {
    const bool before = QUADFS_TRY(Read(change.key)).has_value();
    if (before != change.value.has_value()) {
      QUADFS_TRY(AddToChain(parts->parent, OneConflict(), change.value.has_value()));
    }
  }
  rows_.Set(change.key, change.value);
  return {};
}

Result<void> StateWriter::LoadDetached() {
  if (!detached_) {
    const auto row = QUADFS_TRY(rows_.base().Read(TotalKey(kDetachedRow)));
    detached_ = QUADFS_TRY(DecodeDetached(row));
  }
  return {};
}

Result<void> StateWriter::Reattach() {
  for (auto next = detached_->begin(); next != detached_->end();) {
    const InodeId inode = *next;
    const TotalsCache::Directory loaded = *QUADFS_TRY(Load(inode));
    if (QUADFS_TRY(ChainReaches(loaded.parent, inode))) {
      ++next;
      continue;
    }
    next = detached_->erase(next);
    detached_changed_ = true;
    Totals carried = loaded.totals;
    Apply(carried, OneDirectory(), true);
    QUADFS_TRY(AddToChain(loaded.parent, carried, true));
  }
  return {};
}

std::vector<RowChange> StateWriter::Take() {
  for (auto& [directory, loaded] : directories_) {
    if (totals_changed_.contains(directory)) {
      const bool empty = loaded.totals == Totals();
      if (!empty) {
        rows_.Set(TotalKey(directory), EncodeTotals(loaded.totals));
      } else if (loaded.stored) {
        rows_.Set(TotalKey(directory), std::nullopt);
      }
      loaded.stored = !empty;
    }
    cache_.Put(directory, loaded);
  }
  if (detached_changed_) {
    rows_.Set(TotalKey(kDetachedRow),
              detached_->empty() ? std::nullopt : std::optional(EncodeDetached(*detached_)));
  }
  directories_.clear();
  totals_changed_.clear();
  detached_.reset();
  detached_changed_ = false;
  return rows_.Take();
}

}  // namespace quadfs::metadata
