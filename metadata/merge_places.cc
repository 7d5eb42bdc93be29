#include "metadata/merge_rules.h"

// The part of MergeRules that finds things again and makes room for them.

namespace quadfs::metadata {
namespace {

constexpr size_t kMaxAliases = 10000;     // Length of a chain of merged directories.
constexpr uint32_t kMaxRepeat = 1000000;  // Clashes of one conflict name.

}  // namespace

std::string ConflictName(const std::string& name, CampusId campus, uint64_t campus_op,
                         uint32_t repeat) {
  std::string base = name;
  if (IsConflictName(base)) base.resize(base.rfind(".conflict-"));
  std::string suffix =
      ".conflict-" + std::to_string(campus.value) + "-" + std::to_string(campus_op);
  if (repeat > 0) suffix += "." + std::to_string(repeat);
  if (base.size() + suffix.size() > kMaxNameBytes) {
    size_t size = kMaxNameBytes - suffix.size();
    // Not inside a character of UTF-8; if it is none, anywhere.
    while (size > 0 && (static_cast<uint8_t>(base[size]) & 0xC0) == 0x80) --size;
    base.resize(size > 0 ? size : kMaxNameBytes - suffix.size());
  }
  return base + suffix;
}

// The inode whose name (parent, name) the operation took away, other than `not_this`.
std::optional<InodeId> MergeRules::Taken(InodeId parent, const std::string& name,
                                         InodeId not_this) const {
  for (const RowChange& change : pending_.rows) {
    if (change.value || FamilyOf(change.key) != Family::kLinks) continue;
    const auto parts = ParseLinkKey(change.key);
    if (parts && parts->parent == parent && parts->name == name && parts->inode != not_this) {
      return parts->inode;
    }
  }
  return std::nullopt;
}

// The inode as the operation left it, alive or removed.
Result<std::optional<Attributes>> MergeRules::Authored(InodeId inode) const {
  for (const RowChange& change : pending_.rows) {
    if (!change.value) continue;
    if (change.key == InodeKey(inode)) {
      return std::optional(QUADFS_TRY(DecodeInode(inode, *change.value)));
    }
    if (change.key == TombKey(inode)) {
      return std::optional(QUADFS_TRY(DecodeTomb(inode, *change.value)).attributes);
    }
  }
  return std::optional<Attributes>();
}

Result<InodeId> MergeRules::Survivor(InodeId directory) const {
  InodeId current = directory;
  for (size_t length = 0; length < kMaxAliases; ++length) {
    const auto alias = QUADFS_TRY(tree_.Read(AliasKey(current)));
    if (!alias) return current;
    current = QUADFS_TRY(DecodeInodeId(*alias));
  }
  return Error(ErrorCode::kCorruption, "merged directories form a loop");
}

// The row that a publish left: of the inode it names or, where the author's campus knew of the
// conflict already, of the copy.
Result<Attributes> MergeRules::AuthoredContent(InodeId carrier) const {
  for (const InodeId inode : {op_.inode, carrier}) {
    if (auto authored = QUADFS_TRY(Authored(inode))) return std::move(*authored);
  }
  return Error(ErrorCode::kCorruption, "a publish came without its inode row");
}

// The inode that carries what the author had under this number: the survivor of a merged
// directory, or the conflict copy with the version he had.
Result<InodeId> MergeRules::CarrierOf(InodeId inode) const {
  const auto authored = QUADFS_TRY(Authored(inode));
  if (authored && authored->type == FileType::kRegular) {
    const auto fork = QUADFS_TRY(FindFork(tree_, inode, authored->generation));
    if (fork) return *fork;
  }
  return Survivor(inode);
}

// The name that the author calls (parent, name): itself, or the one it had to get instead.
Result<std::optional<Place>> MergeRules::WhereIs(InodeId inode, InodeId parent,
                                                 const std::string& name) {
  const InodeId survivor = QUADFS_TRY(Survivor(parent));
  if (QUADFS_TRY(tree_.Read(LinkKey(inode, survivor, name)))) {
    return std::optional(Place(survivor, name));
  }
  const auto want = QUADFS_TRY(tree_.Read(WantKey(inode, survivor, name)));
  if (!want) return std::optional<Place>();
  Place place = QUADFS_TRY(DecodePlace(*want));
  if (!QUADFS_TRY(tree_.Read(LinkKey(inode, place.first, place.second)))) {
    return std::optional<Place>();
  }
  return std::optional(std::move(place));
}

// What an author calls the name at `place`: the name it was diverted from, if it was.
Result<Place> MergeRules::KnownAs(InodeId inode, const Place& place) const {
  Place known = place;
  const std::string value = EncodePlace(place.first, place.second);
  QUADFS_TRY(
      tree_.ScanPrefix(WantPrefix(inode), {}, [&](std::string_view key, std::string_view got) {
        const auto parts = ParseWantKey(key);
        if (!parts || got != value) return true;
        known = Place(parts->parent, parts->name);
        return false;
      }));
  return known;
}

// Brings a removed inode, and removed directories above it, back. Nothing: it is not remembered.
Result<std::optional<InodeId>> MergeRules::Resurrect(InodeId inode, size_t depth) {
  const InodeId survivor = QUADFS_TRY(Survivor(inode));
  if (QUADFS_TRY(FindInode(tree_, survivor))) return std::optional(survivor);
  const auto tomb = QUADFS_TRY(FindTomb(tree_, survivor));
  if (!tomb) return std::optional<InodeId>();
  if (depth >= kMaxDepth) return Error(ErrorCode::kCorruption, "removed directories form a loop");
  const auto above = QUADFS_TRY(Resurrect(tomb->parent, depth + 1));
  const InodeId parent = above.value_or(kRootInode);
  const std::string name = QUADFS_TRY(FreeName(parent, tomb->name));
  QUADFS_TRY(tree_.Revive(*tomb, parent, name));
  QUADFS_TRY(Divert(survivor, Place(parent, tomb->name), Place(parent, name)));
  resurrected_ = true;
  return std::optional(survivor);
}

// A directory to put things into: alive again if it was removed; the root if nobody knows it.
Result<InodeId> MergeRules::ParentFor(InodeId directory) {
  return QUADFS_TRY(Resurrect(directory)).value_or(kRootInode);
}

Result<std::string> MergeRules::FreeName(InodeId parent, const std::string& name) const {
  if (!QUADFS_TRY(tree_.Read(DentryKey(parent, name)))) return name;
  for (uint32_t repeat = 0; repeat < kMaxRepeat; ++repeat) {
    std::string candidate = ConflictName(name, pending_.campus, pending_.campus_op, repeat);
    if (!QUADFS_TRY(tree_.Read(DentryKey(parent, candidate)))) return candidate;
  }
  return Error(ErrorCode::kNoSpace, "no free conflict name");
}

Result<void> MergeRules::Divert(InodeId inode, const Place& wanted, const Place& got) {
  const RowKey key = WantKey(inode, wanted.first, wanted.second);
  if (wanted != got) {
    tree_.Set(key, EncodePlace(got.first, got.second));
    renamed_ = true;
  } else if (QUADFS_TRY(tree_.Read(key))) {
    tree_.Set(key, std::nullopt);
  }
  return {};
}

Result<void> MergeRules::ForgetDiversions(InodeId inode, const Place& place) {
  std::vector<RowKey> stale;
  const std::string value = EncodePlace(place.first, place.second);
  QUADFS_TRY(
      tree_.ScanPrefix(WantPrefix(inode), {}, [&](std::string_view key, std::string_view got) {
        if (got == value) stale.emplace_back(key);
        return true;
      }));
  for (const RowKey& key : stale) tree_.Set(key, std::nullopt);
  return {};
}

}  // namespace quadfs::metadata
