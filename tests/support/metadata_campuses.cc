#include "tests/support/metadata_campuses.h"

#include <algorithm>

#include "metadata/tree_rows.h"

namespace quadfs::test {

using namespace metadata;  // NOLINT: a test's support file.

namespace {

constexpr size_t kAll = SIZE_MAX;

struct Item {
  InodeId parent;
  std::string name;
  Attributes attributes;
};

// What a user of this state could name.
std::vector<Item> VisibleItems(const RowReader& state) {
  std::vector<Item> items;
  std::vector<InodeId> todo{kRootInode};
  std::set<InodeId> done;
  while (!todo.empty()) {
    const InodeId directory = todo.back();
    todo.pop_back();
    if (!done.insert(directory).second) continue;
    std::vector<std::string> names;
    state
        .ScanPrefix(DentryPrefix(directory), {},
                    [&](std::string_view key, std::string_view) {
                      names.emplace_back(ParseDentryKey(key)->name);
                      return true;
                    })
        .value();
    for (const std::string& name : names) {
      const auto found = FindName(state, directory, name).value();
      if (!found) continue;
      items.push_back({directory, name, *found});
      if (found->type == FileType::kDirectory) todo.push_back(found->inode);
    }
  }
  return items;
}

Checksum VersionRoot(uint64_t version) {
  Checksum root;
  for (size_t i = 0; i < 8; ++i) root.bytes[i] = static_cast<uint8_t>(version >> (8 * i));
  root.bytes[15] = 1;
  return root;
}

bool HasLoop(const RowReader& state) {
  for (const auto& [key, value] : AllRows(state)) {
    if (FamilyOf(key) != Family::kInode) continue;
    const InodeId inode(*ParseNumberKey(key));
    const Attributes attributes = DecodeInode(inode, value).value();
    InodeId current = attributes.parent;
    for (size_t depth = 0; depth < 200 && current; ++depth) {
      const auto next = FindInode(state, current).value();
      current = next ? next->parent : InodeId();
    }
    if (current) return true;
  }
  return false;
}

}  // namespace

Campuses::Campuses(uint64_t seed, bool cut, Forge forge)
    : cut_(cut), forge_(std::move(forge)), random_(seed), versions_(seed + 1) {
  global_.Apply(EmptyTree(1));
  for (uint64_t id = 1; id <= 3; ++id) {
    Campus& campus = campuses_.emplace_back();
    campus.id = CampusId(id);
    campus.state.Apply(EmptyTree(1));
  }
}

void Campuses::Fail(const std::string& what) {
  if (failure_.empty()) failure_ = what;
}

std::string Campuses::Run(size_t count) {
  for (size_t step = 0; step < count && failure_.empty(); ++step) Step();
  for (Campus& campus : campuses_) Ship(campus, kAll);
  for (Campus& campus : campuses_) Pull(campus, kAll);
  if (failure_.empty()) CheckEnd();
  return failure_;
}

void Campuses::Step() {
  if (cut_ && Below(50) == 0) {  // Main's own campus is never cut off.
    Campus& campus = campuses_[1 + Below(2)];
    campus.connected = !campus.connected;
  }
  Campus& campus = campuses_[Below(3)];
  if (campus.connected) {
    const uint64_t choice = Below(10);
    if (choice < 3) return Ship(campus, 1 + Below(3));
    if (choice < 6) return Pull(campus, 1 + Below(4));
  }
  const auto operation = RandomOperation(campus);
  if (!operation) return;
  if (!cut_ && !TakeLeases(campus, *operation)) return;
  Accept(campus, *operation);
}

std::optional<Operation> Campuses::RandomOperation(Campus& campus) {
  const std::vector<Item> items = VisibleItems(campus.state);
  std::vector<Item> files;
  std::vector<Item> directories;
  std::vector<InodeId> parents{kRootInode};
  for (const Item& item : items) {
    const bool directory = item.attributes.type == FileType::kDirectory;
    (directory ? directories : files).push_back(item);
    if (directory) parents.push_back(item.attributes.inode);
  }
  Operation op;
  op.now_ns = now_ += static_cast<int64_t>(Below(3));
  op.parent = parents[Below(parents.size())];
  op.name = std::string(1, static_cast<char>('a' + Below(4)));
  op.mode = 0755;
  const uint64_t choice = Below(100);
  if (choice < 30) {
    op.kind = OpKind::kCreate;
    const bool directory = Below(10) < 4 && directories.size() < 12;
    op.type = directory ? FileType::kDirectory : FileType::kRegular;
    op.inode = InodeId((campus.id.value << 48) | campus.next_inode++);
    return op;
  }
  if (choice < 75 && files.empty()) return std::nullopt;
  if (choice < 70) {
    const Item& file = files[Below(files.size())];
    op.inode = file.attributes.inode;
    if (choice < 52) {
      op.kind = OpKind::kPublish;
      op.base = file.attributes.generation;
      op.location.node = NodeId(campus.id.value * 10 + Below(2));
      op.generation = NextGeneration(op.base, versions_);
      op.size = 1 + Below(1000);
      op.root = VersionRoot(next_version_++);
    } else if (choice < 57) {
      op.kind = OpKind::kLink;
    } else if (choice < 67) {
      op.kind = OpKind::kUnlink;
      op.parent = file.parent;
      op.name = file.name;
    } else if (choice < 69) {
      op.kind = OpKind::kSetAttributes;
      op.set_mask = kSetMode;
      op.mode = 0600 + static_cast<uint32_t>(Below(64));
    } else {
      op.kind = Below(2) == 0 ? OpKind::kSetXattr : OpKind::kRemoveXattr;
      op.xattr_name = "user.a";
      op.xattr_value = std::to_string(Below(4));
    }
    return op;
  }
  if (choice < 78) {
    if (directories.empty()) return std::nullopt;
    const Item& directory = directories[Below(directories.size())];
    op.kind = OpKind::kRmdir;
    op.parent = directory.parent;
    op.name = directory.name;
    return op;
  }
  if (items.empty()) return std::nullopt;
  const Item& item = items[Below(items.size())];
  op.kind = OpKind::kRename;
  op.new_parent = op.parent;
  op.new_name = op.name;
  op.parent = item.parent;
  op.name = item.name;
  if (choice > 96) op.rename_flags = kRenameExchange;
  return op;
}

// True if all leases were there already, so that the operation may run on the state as it is.
bool Campuses::TakeLeases(Campus& campus, const Operation& operation) {
  const LeaseNeeds needs = NeedsOf(campus.state, operation).value();
  if (needs.at_main) {
    for (Campus& other : campuses_) Ship(other, kAll);
    // Main looks for itself: the campus may be behind. What it needs is recalled.
    const LeaseNeeds recalled = NeedsOf(global_, operation).value();
    for (const InodeId directory : recalled.directories) leases_.erase(directory);
    const auto effects = Execute(global_, operation, campus.id);
    if (effects.ok()) {
      Shipped shipped;
      Append(shipped, effects->rows);
    }
    Pull(campus, kAll);
    return false;
  }
  bool held = true;
  for (const InodeId directory : needs.directories) {
    CampusId& holder = leases_[directory];
    if (holder == campus.id) continue;
    if (holder) Ship(campuses_[holder.value - 1], kAll);
    holder = campus.id;
    held = false;
  }
  if (held) return true;
  Ship(campus, kAll);
  Pull(campus, kAll);
  return false;
}

void Campuses::Accept(Campus& campus, const Operation& operation) {
  const auto effects = Execute(campus.state, operation, campus.id);
  if (!effects.ok()) {
    if (effects.error().code() == ErrorCode::kCorruption) Fail(effects.error().ToString());
    return;
  }
  if (effects->rows.empty()) return;
  Shipped shipped;
  shipped.entry.campus = campus.id;
  shipped.entry.campus_op = campus.next_op++;
  shipped.entry.kind = operation.kind;
  shipped.entry.rows = effects->rows;
  shipped.entry.seen = effects->seen;
  shipped.entry.operation = operation;
  for (const RowChange& change : effects->rows) {
    if (FamilyOf(change.key) != Family::kInode) continue;
    const auto before = FindInode(campus.state, InodeId(*ParseNumberKey(change.key))).value();
    if (before && before->root) shipped.versions.insert(before->root);
  }
  // What travels is what the codec makes of it.
  shipped.entry = DecodeLogEntry(Encode(shipped.entry)).value();
  for (const RowChange& change : shipped.entry.rows) {
    Shadow& shadow = campus.shadow[change.key];
    if (shadow.count++ == 0) shadow.value = campus.state.Read(change.key).value();
  }
  WriteState(campus, shipped.entry.rows);
  campus.pending.push_back(std::move(shipped));
}

void Campuses::WriteState(Campus& campus, const std::vector<RowChange>& rows) {
  StateWriter writer(campus.state, campus.totals);
  const auto set = writer.SetAll(rows);
  if (!set.ok()) Fail(set.error().ToString());
  campus.state.Apply(writer.Take());
  // Totals hold at every moment without a loop, not only at the end.
  if (Below(40) == 0) {
    if (HasLoop(campus.state)) {
      campus.seen_loop = true;
    } else if (StoredTotals(campus.state) != TotalsFromScratch(campus.state)) {
      Fail("totals differ at campus " + std::to_string(campus.id.value));
    }
  }
}

void Campuses::Ship(Campus& campus, size_t count) {
  for (; count > 0 && campus.sent < campus.pending.size(); --count, ++campus.sent) {
    Shipped shipped = campus.pending[campus.sent];
    const std::vector<RowChange> rows = shipped.entry.rows;
    if (forge_) forge_(global_, shipped.entry);
    const auto merged = Merge(global_, shipped.entry);
    if (!merged.ok()) return Fail(merged.error().ToString());
    ++verdicts_[merged->verdict];
    const bool verbatim =
        merged->verdict == static_cast<uint8_t>(Verdict::kOk) && merged->rows == rows;
    if (!cut_ && !verbatim) {
      return Fail("under leases the verdict was " + std::string(VerdictName(merged->verdict)) +
                  " for kind " + std::to_string(static_cast<int>(shipped.entry.kind)));
    }
    CheckVersions(shipped, merged->rows);
    Append(shipped, merged->rows);
  }
}

// A content goes only by the hand of somebody who had it before him.
void Campuses::CheckVersions(const Shipped& shipped, const std::vector<RowChange>& rows) {
  MapRows after = global_;
  after.Apply(rows);
  for (const RowChange& change : rows) {
    const auto family = FamilyOf(change.key);
    if (family == Family::kTomb && !change.value &&
        !after.rows().contains(InodeKey(InodeId(*ParseNumberKey(change.key))))) {
      Fail("a tomb went without a resurrection");
    }
    if (family != Family::kInode) continue;
    const InodeId inode(*ParseNumberKey(change.key));
    const auto before = FindInode(global_, inode).value();
    const auto now = FindInode(after, inode).value();
    if (!before || !before->root || (now && now->root == before->root)) continue;
    if (!shipped.versions.contains(before->root)) {
      Fail("a version was lost that its remover had not seen, kind " +
           std::to_string(static_cast<int>(shipped.entry.kind)));
    }
  }
  if (shipped.entry.kind != OpKind::kPublish) return;
  bool found = false;
  for (const auto& [key, value] : after.rows()) {
    found = found || (FamilyOf(key) == Family::kInode &&
                      DecodeInode(InodeId(1), value).value().root == shipped.entry.operation->root);
  }
  if (!found) Fail("a published version is nowhere");
}

void Campuses::Append(const Shipped& shipped, const std::vector<RowChange>& rows) {
  global_.Apply(rows);
  log_.push_back({shipped.entry.campus, shipped.entry.campus_op, rows});
}

void Campuses::Pull(Campus& campus, size_t count) {
  for (; count > 0 && campus.position < log_.size(); --count, ++campus.position) {
    const Merging& entry = log_[campus.position];
    std::vector<RowChange> visible;
    for (const RowChange& change : entry.rows) {
      const auto shadow = campus.shadow.find(change.key);
      if (shadow != campus.shadow.end()) {
        shadow->second.value = change.value;
      } else {
        visible.push_back(change);
      }
    }
    if (entry.campus == campus.id && entry.campus_op != 0) {
      const Shipped answered = std::move(campus.pending.front());
      campus.pending.pop_front();
      --campus.sent;
      for (const RowChange& change : answered.entry.rows) {
        const auto shadow = campus.shadow.find(change.key);
        if (--shadow->second.count > 0) continue;
        visible.push_back({change.key, shadow->second.value});
        campus.shadow.erase(shadow);
      }
    }
    WriteState(campus, visible);
  }
}

size_t Campuses::conflict_names() const {
  size_t count = 0;
  for (const auto& [key, value] : global_.rows()) {
    const auto parts = ParseDentryKey(key);
    if (parts && IsConflictName(parts->name)) ++count;
  }
  return count;
}

void Campuses::CheckEnd() {
  for (const std::string& fault : TreeFaults(global_)) Fail(fault);
  for (Campus& campus : campuses_) {
    const std::string at = " at campus " + std::to_string(campus.id.value);
    if (!campus.pending.empty() || !campus.shadow.empty()) Fail("undrained" + at);
    if (StoredTotals(campus.state) != TotalsFromScratch(campus.state)) {
      Fail("totals differ in the end" + at);
    }
    auto rows = campus.state.rows();
    std::erase_if(rows, [](const auto& one) { return FamilyOf(one.first) == Family::kTotal; });
    if (rows != global_.rows()) Fail("diverged" + at);
  }
}

}  // namespace quadfs::test
