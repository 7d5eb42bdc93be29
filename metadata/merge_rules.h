#pragma once

#include <optional>
#include <string>

#include "metadata/merge.h"
#include "metadata/operation.h"
#include "metadata/tree_edit.h"

namespace quadfs::metadata {

/// One operation of a campus laid over main's state, by rule: what its author meant is found
/// again by inode and version, never by path alone. Used once. Threads: one.
class MergeRules {
 public:
  MergeRules(const RowReader& global, const LogEntry& pending, const Operation& op)
      : tree_(global, op.now_ns, TreeEdit::Times::kNewest), pending_(pending), op_(op) {}

  Result<Merged> Run();

 private:
  Result<Verdict> Dispatch();
  Result<Verdict> Create();
  Result<Verdict> Publish();
  Result<Verdict> Fork(const Attributes& current, InodeId carrier);
  Result<Verdict> Unlink();
  Result<Verdict> Rmdir();
  Result<Verdict> Link();
  Result<Verdict> Rename();
  Result<Verdict> Exchange();
  Result<Verdict> SetAttributes();
  Result<Verdict> ChangeXattr();
  Result<Verdict> Locate();
  Result<Verdict> Member();

  // What the author saw, out of the rows his operation changed.
  std::optional<InodeId> Taken(InodeId parent, const std::string& name, InodeId not_this) const;
  Result<std::optional<Attributes>> Authored(InodeId inode) const;
  Result<Attributes> AuthoredContent(InodeId carrier) const;

  // Where that is now.
  Result<InodeId> Survivor(InodeId directory) const;
  Result<InodeId> CarrierOf(InodeId inode) const;
  Result<std::optional<Place>> WhereIs(InodeId inode, InodeId parent, const std::string& name);
  Result<Place> KnownAs(InodeId inode, const Place& place) const;

  // Making room.
  Result<std::optional<InodeId>> Resurrect(InodeId inode, size_t depth = 0);
  Result<InodeId> ParentFor(InodeId directory);
  Result<std::string> FreeName(InodeId parent, const std::string& name) const;
  Result<std::optional<std::string>> ClearTarget(InodeId moved, InodeId parent);
  Result<void> Divert(InodeId inode, const Place& wanted, const Place& got);
  Result<void> ForgetDiversions(InodeId inode, const Place& place);

  TreeEdit tree_;
  const LogEntry& pending_;
  const Operation& op_;
  bool resurrected_ = false;
  bool renamed_ = false;
};

/// `name` with the suffix of a conflict of that operation: cut so that it stays a name, after the
/// suffix of an earlier conflict was taken off; `repeat` above 0 makes the next candidate.
std::string ConflictName(const std::string& name, CampusId campus, uint64_t campus_op,
                         uint32_t repeat);

}  // namespace quadfs::metadata
