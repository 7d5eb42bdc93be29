#include "metadata/merge_rules.h"

#include <algorithm>

#include "metadata/ops/ops.h"
#include "metadata/permission.h"

namespace quadfs::metadata {
namespace {

bool IsDirectory(const Attributes& attributes) { return attributes.type == FileType::kDirectory; }

bool MayBecomeOne(const Attributes& one, const Attributes& other) {
  return IsDirectory(one) && IsDirectory(other) && one.mode == other.mode && one.uid == other.uid &&
         one.gid == other.gid && !one.has_xattr && !other.has_xattr;
}

}  // namespace

Result<Merged> MergeRules::Run() {
  Verdict verdict = QUADFS_TRY(Dispatch());
  if (verdict == Verdict::kOk && renamed_) verdict = Verdict::kRenamed;
  if (verdict == Verdict::kOk && resurrected_) verdict = Verdict::kResurrected;
  Effects effects = QUADFS_TRY(tree_.Take(OpResult()));
  return Merged{std::move(effects.rows), static_cast<uint8_t>(verdict)};
}

Result<Verdict> MergeRules::Dispatch() {
  switch (op_.kind) {
    case OpKind::kCreate: return Create();
    case OpKind::kLink: return Link();
    case OpKind::kUnlink: return Unlink();
    case OpKind::kRmdir: return Rmdir();
    case OpKind::kRename: return (op_.rename_flags & kRenameExchange) != 0 ? Exchange() : Rename();
    case OpKind::kSetAttributes: return SetAttributes();
    case OpKind::kSetXattr:
    case OpKind::kRemoveXattr: return ChangeXattr();
    case OpKind::kPublish: return Publish();
    case OpKind::kLocate: return Locate();
    case OpKind::kMember: return Member();
  }
  return Error(ErrorCode::kCorruption, "no such operation");
}

Result<Verdict> MergeRules::Create() {
  auto authored = QUADFS_TRY(Authored(op_.inode));
  if (!authored) return Error(ErrorCode::kCorruption, "a create came without its inode row");
  if (QUADFS_TRY(FindInode(tree_, op_.inode))) return Verdict::kAlready;
  const InodeId parent = QUADFS_TRY(ParentFor(op_.parent));
  const auto current = QUADFS_TRY(FindName(tree_, parent, op_.name));
  if (current && MayBecomeOne(*current, *authored)) {
    tree_.Set(AliasKey(op_.inode), EncodeInodeId(current->inode));
    return Verdict::kMerged;
  }
  const std::string name = QUADFS_TRY(FreeName(parent, op_.name));
  QUADFS_TRY(tree_.Create(std::move(*authored), parent, name));
  QUADFS_TRY(Divert(op_.inode, Place(parent, op_.name), Place(parent, name)));
  return Verdict::kOk;
}

Result<Verdict> MergeRules::Publish() {
  const auto fork = QUADFS_TRY(FindFork(tree_, op_.inode, op_.base));
  const InodeId carrier = fork.value_or(op_.inode);
  const auto alive = QUADFS_TRY(Resurrect(carrier));
  if (!alive) {  // Not even remembered any more: its content is kept all the same.
    Attributes authored = QUADFS_TRY(AuthoredContent(carrier));
    authored.parent = kRootInode;
    return Fork(authored, carrier);
  }
  Attributes current = QUADFS_TRY(ReadInode(tree_, *alive));
  if (current.generation != op_.base) return Fork(current, carrier);
  QUADFS_TRY(ApplyPublish(tree_, current, op_, op_.base, pending_.campus));
  if (carrier != op_.inode) {
    tree_.Set(ForkKey(op_.inode, op_.generation), EncodeInodeId(carrier));
  }
  return Verdict::kOk;
}

// Both contents stay: the author's gets an inode of its own beside the file.
Result<Verdict> MergeRules::Fork(const Attributes& current, InodeId carrier) {
  Attributes authored = QUADFS_TRY(AuthoredContent(carrier));
  const auto primary = QUADFS_TRY(PrimaryName(tree_, current));
  const Place place = primary.value_or(Place(kRootInode, "lost"));
  const InodeId copy = ConflictInode(pending_.campus, pending_.campus_op);
  authored.inode = copy;
  authored.has_xattr = false;
  QUADFS_TRY(tree_.ScanPrefix(XattrPrefix(current.inode), {},
                              [&](std::string_view key, std::string_view value) {
                                const auto parts = ParseXattrKey(key);
                                if (parts && parts->name != "security.capability") {
                                  tree_.Set(XattrKey(copy, parts->name), std::string(value));
                                  authored.has_xattr = true;
                                }
                                return true;
                              }));
  const std::string name = QUADFS_TRY(FreeName(place.first, place.second));
  QUADFS_TRY(tree_.Create(authored, place.first, name));
  Location holder = op_.location;
  holder.campus = pending_.campus;
  holder.generation = op_.generation;
  holder.verified = false;
  tree_.Set(LocationKey(copy), EncodeLocations({holder}));
  tree_.Set(ForkKey(op_.inode, op_.generation), EncodeInodeId(copy));
  const Place known = QUADFS_TRY(KnownAs(current.inode, place));
  QUADFS_TRY(Divert(copy, known, Place(place.first, name)));
  return Verdict::kForked;
}

Result<Verdict> MergeRules::Unlink() {
  const auto taken = Taken(op_.parent, op_.name, InodeId());
  if (!taken) return Verdict::kAlready;
  const auto authored = QUADFS_TRY(Authored(*taken));
  const InodeId inode = QUADFS_TRY(CarrierOf(*taken));
  const auto current = QUADFS_TRY(FindInode(tree_, inode));
  if (!current) return Verdict::kAlready;
  const auto place = QUADFS_TRY(WhereIs(inode, op_.parent, op_.name));
  // While another name is left nothing can be lost; the last one goes with the version seen only.
  if (current->nlink < 2 && (!authored || authored->generation != current->generation)) {
    return Verdict::kVoidChanged;
  }
  if (!place) return Verdict::kVoidMoved;
  QUADFS_TRY(tree_.RemoveName(inode, place->first, place->second));
  QUADFS_TRY(ForgetDiversions(inode, *place));
  return Verdict::kOk;
}

Result<Verdict> MergeRules::Rmdir() {
  const auto taken = Taken(op_.parent, op_.name, InodeId());
  if (!taken) return Verdict::kAlready;
  if (QUADFS_TRY(Survivor(*taken)) != *taken) return Verdict::kVoidMerged;
  if (!QUADFS_TRY(FindInode(tree_, *taken))) return Verdict::kAlready;
  const auto place = QUADFS_TRY(WhereIs(*taken, op_.parent, op_.name));
  if (!place) return Verdict::kVoidMoved;
  if (QUADFS_TRY(HasEntries(tree_, *taken))) return Verdict::kVoidNotEmpty;
  QUADFS_TRY(tree_.RemoveName(*taken, place->first, place->second));
  QUADFS_TRY(ForgetDiversions(*taken, *place));
  return Verdict::kOk;
}

Result<Verdict> MergeRules::Link() {
  const InodeId carrier = QUADFS_TRY(CarrierOf(op_.inode));
  const auto inode = QUADFS_TRY(Resurrect(carrier));
  if (!inode) return Verdict::kVoidRefused;
  const InodeId parent = QUADFS_TRY(ParentFor(op_.parent));
  const auto there = QUADFS_TRY(FindName(tree_, parent, op_.name));
  if (there && there->inode == *inode) {
    return resurrected_ ? Verdict::kResurrected : Verdict::kAlready;
  }
  const Attributes current = QUADFS_TRY(ReadInode(tree_, *inode));
  if (IsDirectory(current) || current.nlink >= kMaxLinks) return Verdict::kVoidRefused;
  const std::string name = QUADFS_TRY(FreeName(parent, op_.name));
  QUADFS_TRY(tree_.AddName(*inode, parent, name));
  QUADFS_TRY(Divert(*inode, Place(parent, op_.name), Place(parent, name)));
  if (name != op_.name) renamed_ = true;
  return Verdict::kOk;
}

Result<Verdict> MergeRules::Rename() {
  const auto taken = Taken(op_.parent, op_.name, InodeId());
  if (!taken) return Verdict::kAlready;
  const InodeId carrier = QUADFS_TRY(CarrierOf(*taken));
  const auto authored = QUADFS_TRY(Authored(*taken));
  if (authored && IsDirectory(*authored) && carrier != *taken) return Verdict::kVoidMerged;
  const bool removed = !QUADFS_TRY(FindInode(tree_, carrier)).has_value();
  const auto inode = QUADFS_TRY(Resurrect(carrier));
  if (!inode) return Verdict::kVoidRefused;
  const Attributes moved = QUADFS_TRY(ReadInode(tree_, *inode));
  const auto from = removed ? QUADFS_TRY(PrimaryName(tree_, moved))
                            : QUADFS_TRY(WhereIs(*inode, op_.parent, op_.name));
  if (!from) return Verdict::kVoidMoved;
  const InodeId parent = QUADFS_TRY(ParentFor(op_.new_parent));
  if (IsDirectory(moved) && QUADFS_TRY(IsWithin(tree_.unseen(), parent, *inode))) {
    return Verdict::kVoidLoop;
  }
  const auto cleared = QUADFS_TRY(ClearTarget(*inode, parent));
  if (!cleared) {  // It has the new name already: the two become one.
    if (*from != Place(parent, op_.new_name)) {
      QUADFS_TRY(tree_.RemoveName(*inode, from->first, from->second));
      QUADFS_TRY(ForgetDiversions(*inode, *from));
    }
    return Verdict::kOk;
  }
  const Place to(parent, *cleared);
  if (to != *from) {
    QUADFS_TRY(ForgetDiversions(*inode, *from));
    QUADFS_TRY(tree_.MoveName(*inode, *from, to));
  }
  QUADFS_TRY(Divert(*inode, Place(parent, op_.new_name), to));
  return Verdict::kOk;
}

// Makes room for `moved` at the new name: what stood there in the author's eyes goes if it is as
// he saw it. The name to take; nothing if `moved` has that name itself.
Result<std::optional<std::string>> MergeRules::ClearTarget(InodeId moved, InodeId parent) {
  const auto there = QUADFS_TRY(FindName(tree_, parent, op_.new_name));
  if (there && there->inode == moved) return std::optional<std::string>();
  const auto seen = Taken(op_.new_parent, op_.new_name, *Taken(op_.parent, op_.name, InodeId()));
  if (seen) {
    const auto authored = QUADFS_TRY(Authored(*seen));
    const InodeId victim = QUADFS_TRY(CarrierOf(*seen));
    const auto current = QUADFS_TRY(FindInode(tree_, victim));
    const auto place = current && victim != moved
                           ? QUADFS_TRY(WhereIs(victim, op_.new_parent, op_.new_name))
                           : std::nullopt;
    bool may_go = false;
    if (place && authored && authored->type == current->type) {
      may_go = IsDirectory(*current)
                   ? victim == *seen && !QUADFS_TRY(HasEntries(tree_, victim))
                   : current->nlink > 1 || current->generation == authored->generation;
    }
    if (may_go) {
      QUADFS_TRY(tree_.RemoveName(victim, place->first, place->second));
      QUADFS_TRY(ForgetDiversions(victim, *place));
      if (place->first == parent) return std::optional(place->second);
    }
  }
  const std::string name = QUADFS_TRY(FreeName(parent, op_.new_name));
  if (name != op_.new_name) renamed_ = true;
  return std::optional(name);
}

Result<Verdict> MergeRules::Exchange() {
  const auto one = Taken(op_.parent, op_.name, InodeId());
  if (!one) return Verdict::kAlready;
  const auto other = Taken(op_.new_parent, op_.new_name, *one);
  if (!other) return Verdict::kAlready;
  const InodeId first = QUADFS_TRY(CarrierOf(*one));
  const InodeId second = QUADFS_TRY(CarrierOf(*other));
  const auto first_row = QUADFS_TRY(FindInode(tree_, first));
  const auto second_row = QUADFS_TRY(FindInode(tree_, second));
  if (!first_row || !second_row || first == second) return Verdict::kVoidMoved;
  if ((IsDirectory(*first_row) && first != *one) ||
      (IsDirectory(*second_row) && second != *other)) {
    return Verdict::kVoidMerged;
  }
  const auto at_first = QUADFS_TRY(WhereIs(first, op_.parent, op_.name));
  const auto at_second = QUADFS_TRY(WhereIs(second, op_.new_parent, op_.new_name));
  if (!at_first || !at_second) return Verdict::kVoidMoved;
  if (QUADFS_TRY(IsWithin(tree_.unseen(), at_second->first, first)) ||
      QUADFS_TRY(IsWithin(tree_.unseen(), at_first->first, second))) {
    return Verdict::kVoidLoop;
  }
  const Place wants_first(QUADFS_TRY(Survivor(op_.new_parent)), op_.new_name);
  const Place wants_second(QUADFS_TRY(Survivor(op_.parent)), op_.name);
  QUADFS_TRY(ForgetDiversions(first, *at_first));
  QUADFS_TRY(ForgetDiversions(second, *at_second));
  QUADFS_TRY(tree_.ExchangeNames(first, *at_first, second, *at_second));
  QUADFS_TRY(Divert(first, wants_first, *at_second));
  QUADFS_TRY(Divert(second, wants_second, *at_first));
  renamed_ = false;
  return Verdict::kOk;
}

// The fields it names are set; all others stay as they are.
Result<Verdict> MergeRules::SetAttributes() {
  const InodeId inode = QUADFS_TRY(CarrierOf(op_.inode));
  auto current = QUADFS_TRY(FindInode(tree_, inode));
  if (!current) return Verdict::kVoidRefused;
  ApplyAttributes(*current, op_);
  if ((op_.set_mask & (kSetUid | kSetGid)) != 0 && !IsDirectory(*current)) {
    QUADFS_TRY(tree_.DropCapability(*current));
  }
  current->ctime_ns = tree_.Time(current->ctime_ns);
  tree_.PutInode(*current);
  return Verdict::kOk;
}

// An attribute that main changed meanwhile stays as main has it.
Result<Verdict> MergeRules::ChangeXattr() {
  const InodeId inode = QUADFS_TRY(CarrierOf(op_.inode));
  if (!QUADFS_TRY(FindInode(tree_, inode))) return Verdict::kVoidRefused;
  const auto now = QUADFS_TRY(tree_.Read(XattrKey(inode, op_.xattr_name)));
  const RowKey seen_key = XattrKey(op_.inode, op_.xattr_name);
  const auto seen = std::find_if(pending_.seen.begin(), pending_.seen.end(),
                                 [&](const auto& one) { return one.first == seen_key; });
  if (inode == op_.inode && seen != pending_.seen.end() && seen->second != RowHash(now)) {
    return Verdict::kVoidChanged;
  }
  Operation again = op_;
  again.inode = inode;
  again.xattr_flags = 0;
  again.credentials = Credentials();  // Its campus has decided: may do it.
  const auto done = op_.kind == OpKind::kSetXattr ? ExecuteSetXattr(tree_, again)
                                                  : ExecuteRemoveXattr(tree_, again);
  if (done.ok()) return Verdict::kOk;
  if (done.error().code() == ErrorCode::kNoAttribute) return Verdict::kAlready;
  if (done.error().code() == ErrorCode::kIo || done.error().code() == ErrorCode::kCorruption) {
    return done.error();
  }
  return Verdict::kVoidRefused;
}

Result<Verdict> MergeRules::Locate() {
  Operation again = op_;
  const auto fork = QUADFS_TRY(FindFork(tree_, op_.inode, op_.location.generation));
  again.inode = fork.value_or(op_.inode);
  const auto done = ExecuteLocate(tree_, again);
  if (done.ok()) return Verdict::kOk;
  if (done.error().code() == ErrorCode::kIo || done.error().code() == ErrorCode::kCorruption) {
    return done.error();
  }
  return Verdict::kVoidRefused;
}

Result<Verdict> MergeRules::Member() {
  return ExecuteMember(tree_, op_).ok() ? Verdict::kOk : Verdict::kVoidRefused;
}

}  // namespace quadfs::metadata
