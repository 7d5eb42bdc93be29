#include "metadata/merge.h"

#include <algorithm>

#include "metadata/merge_rules.h"
#include "metadata/row_overlay.h"
#include "metadata/tree_rows.h"

namespace quadfs::metadata {
namespace {

Result<bool> SawEverything(const RowReader& global, const LogEntry& pending) {
  for (const auto& [key, hash] : pending.seen) {
    if (RowHash(QUADFS_TRY(global.Read(key))) != hash) return false;
  }
  return true;
}

// Names of an inode that the rows add, less those they take away.
Result<int64_t> NamesGained(const RowReader& global, const std::vector<RowChange>& rows,
                            InodeId inode) {
  int64_t gained = 0;
  for (const RowChange& change : rows) {
    const auto parts = ParseLinkKey(change.key);
    if (!parts || parts->inode != inode) continue;
    const bool before = QUADFS_TRY(global.Read(change.key)).has_value();
    gained += (change.value ? 1 : 0) - (before ? 1 : 0);
  }
  return gained;
}

Result<bool> MayRemove(const RowReader& global, const LogEntry& pending, const Tomb& tomb) {
  const InodeId inode = tomb.attributes.inode;
  if (tomb.attributes.type == FileType::kDirectory) {
    return !QUADFS_TRY(HasEntries(global, inode));
  }
  const auto before = QUADFS_TRY(FindInode(global, inode));
  return before &&
         int64_t{before->nlink} + QUADFS_TRY(NamesGained(global, pending.rows, inode)) == 0;
}

// `after`: the state with the rows over it.
Result<bool> MayBecome(const RowReader& global, const RowReader& after, const LogEntry& pending,
                       const Attributes& row) {
  const auto before = QUADFS_TRY(FindInode(global, row.inode));
  if (row.type == FileType::kDirectory) {
    const bool moved = before && before->parent != row.parent;
    return !moved || !QUADFS_TRY(IsWithin(global, row.parent, row.inode));
  }
  const int64_t names = before ? int64_t{before->nlink} : 0;
  return names + QUADFS_TRY(NamesGained(global, pending.rows, row.inode)) == int64_t{row.nlink} &&
         QUADFS_TRY(PrimaryName(after, row)).has_value();
}

// What no single row that was seen tells: removed directories are empty, removed files have no
// other name, links are counted right, no loop comes to be.
Result<bool> TreeAllows(const RowReader& global, const LogEntry& pending) {
  RowOverlay after(global);
  for (const RowChange& change : pending.rows) after.Set(change.key, change.value);
  for (const RowChange& change : pending.rows) {
    const auto number = ParseNumberKey(change.key);
    if (!number || !change.value) continue;
    const InodeId inode(*number);
    bool allowed = true;
    if (FamilyOf(change.key) == Family::kTomb) {
      const Tomb tomb = QUADFS_TRY(DecodeTomb(inode, *change.value));
      allowed = QUADFS_TRY(MayRemove(global, pending, tomb));
    } else if (FamilyOf(change.key) == Family::kInode && inode != kRootInode) {
      const Attributes row = QUADFS_TRY(DecodeInode(inode, *change.value));
      allowed = QUADFS_TRY(MayBecome(global, after, pending, row));
    }
    if (!allowed) return false;
  }
  return true;
}

}  // namespace

std::string_view VerdictName(uint8_t verdict) {
  switch (static_cast<Verdict>(verdict)) {
    case Verdict::kPending: return "pending";
    case Verdict::kOk: return "ok";
    case Verdict::kAlready: return "already";
    case Verdict::kRenamed: return "renamed";
    case Verdict::kMerged: return "merged";
    case Verdict::kForked: return "forked";
    case Verdict::kResurrected: return "resurrected";
    case Verdict::kVoidChanged: return "void-changed";
    case Verdict::kVoidMoved: return "void-moved";
    case Verdict::kVoidNotEmpty: return "void-not-empty";
    case Verdict::kVoidLoop: return "void-loop";
    case Verdict::kVoidMerged: return "void-merged";
    case Verdict::kVoidRefused: return "void-refused";
  }
  return "unknown";
}

bool IsQuiet(uint8_t verdict) {
  return verdict == static_cast<uint8_t>(Verdict::kOk) ||
         verdict == static_cast<uint8_t>(Verdict::kAlready);
}

Result<Merged> Merge(const RowReader& global, const LogEntry& pending) {
  if (!pending.operation || pending.operation->kind != pending.kind) {
    return Error(ErrorCode::kCorruption, "a pending entry came without its operation");
  }
  if (QUADFS_TRY(SawEverything(global, pending)) && QUADFS_TRY(TreeAllows(global, pending))) {
    return Merged{pending.rows, static_cast<uint8_t>(Verdict::kOk)};
  }
  return MergeRules(global, pending, *pending.operation).Run();
}

}  // namespace quadfs::metadata
