#include "metadata/merge.h"

#include <algorithm>

#include "metadata/merge_rules.h"
#include "metadata/tree_rows.h"

namespace quadfs::metadata {
namespace {

Result<bool> SawEverything(const RowReader& global, const LogEntry& pending) {
  for (const auto& [key, hash] : pending.seen) {
    if (RowHash(QUADFS_TRY(global.Read(key))) != hash) return false;
  }
  return true;
}

// What no single row tells: that removed directories are empty, and that no loop comes to be.
Result<bool> TreeAllows(const RowReader& global, const LogEntry& pending) {
  for (const RowChange& change : pending.rows) {
    const auto number = ParseNumberKey(change.key);
    if (!number) continue;
    const InodeId inode(*number);
    const Family family = *FamilyOf(change.key);
    if (family == Family::kTomb && change.value) {
      const Tomb tomb = QUADFS_TRY(DecodeTomb(inode, *change.value));
      if (tomb.attributes.type == FileType::kDirectory &&
          QUADFS_TRY(HasEntries(global, inode))) {
        return false;
      }
    }
    if (family == Family::kInode && change.value && pending.kind == OpKind::kRename) {
      const Attributes after = QUADFS_TRY(DecodeInode(inode, *change.value));
      if (after.type != FileType::kDirectory) continue;
      const auto before = QUADFS_TRY(FindInode(global, inode));
      if ((!before || before->parent != after.parent) &&
          QUADFS_TRY(IsWithin(global, after.parent, inode))) {
        return false;
      }
    }
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
