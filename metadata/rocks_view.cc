#include "metadata/rocks_view.h"

#include <algorithm>

#include "metadata/permission.h"
#include "metadata/tree_rows.h"

namespace quadfs::metadata {
namespace {

constexpr size_t kMaxListPage = 100000;

Error NotFound() { return Error(ErrorCode::kNotFound, "no such name or inode"); }

// Attributes of an inode or of what is remembered of it.
Result<Attributes> GetFrom(const RowReader& rows, InodeId inode) {
  auto found = QUADFS_TRY(FindInode(rows, inode));
  if (found) return std::move(*found);
  auto tomb = QUADFS_TRY(FindTomb(rows, inode));
  if (tomb) return std::move(tomb->attributes);
  return NotFound();
}

// One page of a directory, under one snapshot. New files have neighbouring numbers, so one inode
// cursor that moves along finds most rows by a step; if names and numbers are in different order,
// rows are fetched many at a time instead.
class Page {
 public:
  Page(const RowSnapshot& rows, InodeId directory, bool with_attributes)
      : rows_(rows),
        directory_(directory),
        with_attributes_(with_attributes),
        inodes_(rows.NewCursor(Family::kInode)) {}

  Result<std::vector<DirectoryEntry>> Read(std::string_view after, size_t limit) {
    const std::string prefix = DentryPrefix(directory_).substr(1);
    const auto dentries = rows_.NewCursor(Family::kDentry, /*one_directory=*/true);
    // The first key after a name is that name with a NUL behind, which no name has.
    dentries->Seek(after.empty() ? prefix : prefix + std::string(after) + '\0');
    while (dentries->valid() && dentries->key().starts_with(prefix) && entries_.size() < limit) {
      batch_.clear();
      const size_t room = std::min(limit - entries_.size(), kBatch);
      for (; batch_.size() < room && dentries->valid() && dentries->key().starts_with(prefix);
           dentries->Next()) {
        const Dentry dentry = QUADFS_TRY(DecodeDentry(dentries->value()));
        batch_.push_back({std::string(dentries->key().substr(prefix.size())), dentry.inode,
                          dentry.type, std::nullopt});
      }
      QUADFS_TRY(TakeBatch());
    }
    QUADFS_TRY(dentries->status());
    return std::move(entries_);
  }

 private:
  static constexpr size_t kBatch = 128;

  Result<void> TakeBatch() {
    size_t steps = 0;
    for (size_t i = 1; i < batch_.size(); ++i) {
      const uint64_t before = batch_[i - 1].inode.value;
      if (batch_[i].inode.value > before && batch_[i].inode.value - before < 16) ++steps;
    }
    if (steps * 4 >= batch_.size()) {
      for (DirectoryEntry& entry : batch_) {
        const std::string key = InodeKey(entry.inode).substr(1);
        for (int i = 0; i < 4 && inodes_->valid() && inodes_->key() < key; ++i) inodes_->Next();
        if (!inodes_->valid() || inodes_->key() != key) inodes_->Seek(key);
        QUADFS_TRY(inodes_->status());
        if (inodes_->valid() && inodes_->key() == key) {
          QUADFS_TRY(TakeEntry(std::move(entry), inodes_->value()));
        }
      }
      return {};
    }
    std::vector<RowKey> keys;
    keys.reserve(batch_.size());
    for (const DirectoryEntry& entry : batch_) keys.push_back(InodeKey(entry.inode));
    const auto found = QUADFS_TRY(rows_.ReadMany(keys));
    for (size_t i = 0; i < batch_.size(); ++i) {
      if (found[i]) QUADFS_TRY(TakeEntry(std::move(batch_[i]), *found[i]));
    }
    return {};
  }

  Result<void> TakeEntry(DirectoryEntry entry, std::string_view inode_row) {
    Attributes attributes = QUADFS_TRY(DecodeInode(entry.inode, inode_row));
    if (!QUADFS_TRY(HasName(rows_, attributes, directory_, entry.name))) return {};
    entry.type = attributes.type;
    if (with_attributes_) entry.attributes = std::move(attributes);
    entries_.push_back(std::move(entry));
    return {};
  }

  const RowSnapshot& rows_;
  InodeId directory_;
  bool with_attributes_;
  std::unique_ptr<RowCursor> inodes_;
  std::vector<DirectoryEntry> batch_;
  std::vector<DirectoryEntry> entries_;
};

}  // namespace

Result<Attributes> RocksView::Lookup(InodeId parent, std::string_view name) const {
  if (name == "." || name == "..") {
    Attributes directory = QUADFS_TRY(ReadDirectory(store_, parent));
    if (name == "." || parent == kRootInode) return directory;
    return ReadInode(store_, directory.parent);
  }
  if (name.size() > kMaxNameBytes) {
    return Error(ErrorCode::kNameTooLong, "name is longer than 255 bytes");
  }
  const auto dentry = QUADFS_TRY(store_.Read(DentryKey(parent, name)));
  if (!dentry) {
    QUADFS_TRY(ReadDirectory(store_, parent));
    return NotFound();
  }
  const InodeId inode = QUADFS_TRY(DecodeDentry(*dentry)).inode;
  auto attributes = QUADFS_TRY(FindInode(store_, inode));
  if (attributes && IsPrimaryName(*attributes, parent, name)) return std::move(*attributes);
  // A second name, torn rows, or a change between the two reads: one snapshot decides.
  const auto snapshot = store_.Snapshot();
  attributes = QUADFS_TRY(FindName(*snapshot, parent, name));
  if (!attributes) return NotFound();
  return std::move(*attributes);
}

Result<Attributes> RocksView::Get(InodeId inode) const {
  auto found = QUADFS_TRY(FindInode(store_, inode));
  if (found) return std::move(*found);
  return GetFrom(*store_.Snapshot(), inode);  // It may just have moved to its tomb, or back.
}

Result<std::vector<DirectoryEntry>> RocksView::List(InodeId directory, std::string_view after,
                                                    size_t limit, bool with_attributes) const {
  const auto snapshot = store_.Snapshot();
  const auto attributes = QUADFS_TRY(FindInode(*snapshot, directory));
  if (!attributes) {  // Removed, still open: empty.
    if (QUADFS_TRY(FindTomb(*snapshot, directory))) return std::vector<DirectoryEntry>();
    return NotFound();
  }
  if (attributes->type != FileType::kDirectory) {
    return Error(ErrorCode::kNotDirectory, "not a directory");
  }
  Page page(*snapshot, directory, with_attributes);
  return page.Read(after, std::min(limit, kMaxListPage));
}

Result<std::string> RocksView::GetXattr(InodeId inode, std::string_view name) const {
  const auto row = QUADFS_TRY(store_.Read(XattrKey(inode, name)));
  if (row) return DecodeXattr(*row);
  QUADFS_TRY(Get(inode));
  return Error(ErrorCode::kNoAttribute, "no such extended attribute");
}

Result<std::vector<std::string>> RocksView::ListXattr(InodeId inode) const {
  std::vector<std::string> names;
  const Attributes attributes = QUADFS_TRY(Get(inode));
  if (!attributes.has_xattr) return names;
  QUADFS_TRY(store_.ScanPrefix(XattrPrefix(inode), {}, [&](std::string_view key, std::string_view) {
    if (const auto parts = ParseXattrKey(key)) names.emplace_back(parts->name);
    return true;
  }));
  return names;
}

Result<std::vector<Location>> RocksView::Locations(InodeId inode) const {
  const auto row = QUADFS_TRY(store_.Read(LocationKey(inode)));
  if (row) return DecodeLocations(*row);
  QUADFS_TRY(Get(inode));
  return std::vector<Location>();
}

Result<std::optional<InodeId>> RocksView::ForkOf(const ObjectId& object) const {
  return FindFork(store_, object.inode, object.generation);
}

Result<Totals> RocksView::SubtreeTotals(InodeId directory) const {
  const Attributes attributes = QUADFS_TRY(Get(directory));
  if (attributes.type != FileType::kDirectory) {
    return Error(ErrorCode::kNotDirectory, "not a directory");
  }
  const auto row = QUADFS_TRY(store_.Read(TotalKey(directory)));
  return row ? DecodeTotals(*row) : Result<Totals>(Totals());
}

Result<std::pair<InodeId, std::string>> RocksView::NameOf(InodeId inode) const {
  if (inode == kRootInode) return Error(ErrorCode::kInvalidArgument, "the root has no name");
  const auto snapshot = store_.Snapshot();
  const Attributes attributes = QUADFS_TRY(ReadInode(*snapshot, inode));
  auto place = QUADFS_TRY(PrimaryName(*snapshot, attributes));
  if (!place) return NotFound();
  return std::move(*place);
}

Result<std::string> RocksView::PathOf(InodeId inode) const {
  const auto snapshot = store_.Snapshot();
  std::vector<std::string> names;
  for (InodeId current = inode; current != kRootInode;) {
    if (names.size() >= kMaxDepth) {
      return Error(ErrorCode::kCorruption, "directories form a loop");
    }
    const Attributes attributes = QUADFS_TRY(ReadInode(*snapshot, current));
    auto place = QUADFS_TRY(PrimaryName(*snapshot, attributes));
    if (!place) return NotFound();
    names.push_back(std::move(place->second));
    current = place->first;
  }
  std::string path;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    if (!path.empty()) path += '/';
    path += *name;
  }
  return path;
}

Result<Attributes> RocksView::Resolve(std::string_view path, const Credentials& credentials) const {
  Attributes current = QUADFS_TRY(ReadInode(store_, kRootInode));
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (name.empty()) continue;
    if (current.type != FileType::kDirectory) {
      return Error(ErrorCode::kNotDirectory, "a part of the path is not a directory");
    }
    QUADFS_TRY(CheckSearch(current, credentials));
    current = QUADFS_TRY(Lookup(current.inode, name));
  }
  return current;
}

Result<Member> RocksView::FindMember(CampusId campus, NodeId node) const {
  const auto row = QUADFS_TRY(store_.Read(MemberKey(campus, node)));
  if (!row) return Error(ErrorCode::kNotFound, "no such campus or node");
  return DecodeMember(campus, node, *row);
}

Result<std::vector<Member>> RocksView::Members() const {
  std::vector<Member> members;
  Result<void> failure;
  QUADFS_TRY(store_.ScanPrefix(FamilyPrefix(Family::kMember), {},
                               [&](std::string_view key, std::string_view value) {
                                 const auto ids = ParseMemberKey(key);
                                 if (!ids) return true;
                                 auto member = DecodeMember(ids->first, ids->second, value);
                                 if (!member.ok()) {
                                   failure = std::move(member).error();
                                   return false;
                                 }
                                 members.push_back(std::move(member).value());
                                 return true;
                               }));
  QUADFS_TRY(std::move(failure));
  return members;
}

}  // namespace quadfs::metadata
