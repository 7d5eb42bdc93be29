#include "metadata/tree_edit.h"

namespace quadfs::metadata {
namespace {

bool IsDirectory(const Attributes& attributes) { return attributes.type == FileType::kDirectory; }

void SetPrimary(Attributes& attributes, const Place& place) {
  attributes.parent = place.first;
  attributes.name_hash = NameHash(place.second);
}

}  // namespace

Result<std::optional<std::string>> TreeEdit::Read(const RowKey& key) const {
  if (rows_.changes().contains(key)) return rows_.Read(key);
  const auto known = seen_.find(key);
  if (known != seen_.end()) return known->second;
  return seen_.emplace(key, QUADFS_TRY(rows_.base().Read(key))).first->second;
}

void TreeEdit::PutName(const Attributes& attributes, const Place& place) {
  Set(DentryKey(place.first, place.second), EncodeDentry({attributes.inode, attributes.type}));
  Set(LinkKey(attributes.inode, place.first, place.second), EncodeLink());
}

void TreeEdit::EraseName(InodeId inode, const Place& place) {
  Set(DentryKey(place.first, place.second), std::nullopt);
  Set(LinkKey(inode, place.first, place.second), std::nullopt);
}

Result<void> TreeEdit::TouchDirectory(InodeId directory, int subdirectories) {
  Attributes attributes = QUADFS_TRY(ReadDirectory(*this, directory));
  attributes.mtime_ns = Time(attributes.mtime_ns);
  attributes.ctime_ns = Time(attributes.ctime_ns);
  attributes.nlink += static_cast<uint32_t>(subdirectories);
  PutInode(attributes);
  return {};
}

Result<Attributes> TreeEdit::Create(Attributes attributes, InodeId parent, std::string_view name) {
  const Place place(parent, name);
  attributes.nlink = IsDirectory(attributes) ? 2 : 1;
  SetPrimary(attributes, place);
  PutInode(attributes);
  PutName(attributes, place);
  QUADFS_TRY(TouchDirectory(parent, IsDirectory(attributes) ? 1 : 0));
  return attributes;
}

Result<Attributes> TreeEdit::AddName(InodeId inode, InodeId parent, std::string_view name) {
  Attributes attributes = QUADFS_TRY(ReadInode(*this, inode));
  ++attributes.nlink;
  attributes.ctime_ns = Time(attributes.ctime_ns);
  PutInode(attributes);
  PutName(attributes, Place(parent, name));
  QUADFS_TRY(TouchDirectory(parent, 0));
  return attributes;
}

Result<Attributes> TreeEdit::RemoveName(InodeId inode, InodeId parent, std::string_view name) {
  const Place place(parent, name);
  Attributes attributes = QUADFS_TRY(ReadInode(*this, inode));
  attributes.ctime_ns = Time(attributes.ctime_ns);
  EraseName(inode, place);
  QUADFS_TRY(TouchDirectory(parent, IsDirectory(attributes) ? -1 : 0));
  // The link rows say whether it was the last one: where rows are torn, nlink may not.
  const auto left = QUADFS_TRY(NamesOf(*this, inode, 1));
  if (!IsDirectory(attributes) && !left.empty()) {
    attributes.nlink = attributes.nlink > 1 ? attributes.nlink - 1 : 1;
    if (IsPrimaryName(attributes, parent, name)) SetPrimary(attributes, left.front());
    PutInode(attributes);
    return attributes;
  }
  attributes.nlink = 0;
  Set(InodeKey(inode), std::nullopt);
  Set(TombKey(inode), EncodeTomb({attributes, parent, std::string(name), now_ns_}));
  return attributes;
}

Result<Attributes> TreeEdit::MoveName(InodeId inode, const Place& from, const Place& to) {
  Attributes attributes = QUADFS_TRY(ReadInode(*this, inode));
  attributes.ctime_ns = Time(attributes.ctime_ns);
  if (IsPrimaryName(attributes, from.first, from.second)) SetPrimary(attributes, to);
  EraseName(inode, from);
  PutName(attributes, to);
  PutInode(attributes);
  const int moved = IsDirectory(attributes) && from.first != to.first ? 1 : 0;
  QUADFS_TRY(TouchDirectory(from.first, -moved));
  if (from.first != to.first) QUADFS_TRY(TouchDirectory(to.first, moved));
  return attributes;
}

Result<void> TreeEdit::ExchangeNames(InodeId one, const Place& at_one, InodeId other,
                                     const Place& at_other) {
  Attributes first = QUADFS_TRY(ReadInode(*this, one));
  Attributes second = QUADFS_TRY(ReadInode(*this, other));
  first.ctime_ns = Time(first.ctime_ns);
  second.ctime_ns = Time(second.ctime_ns);
  if (IsPrimaryName(first, at_one.first, at_one.second)) SetPrimary(first, at_other);
  if (IsPrimaryName(second, at_other.first, at_other.second)) SetPrimary(second, at_one);
  EraseName(one, at_one);
  EraseName(other, at_other);
  PutName(first, at_other);
  PutName(second, at_one);
  PutInode(first);
  PutInode(second);
  const int gained = (IsDirectory(second) ? 1 : 0) - (IsDirectory(first) ? 1 : 0);
  const bool across = at_one.first != at_other.first;
  QUADFS_TRY(TouchDirectory(at_one.first, across ? gained : 0));
  if (across) QUADFS_TRY(TouchDirectory(at_other.first, -gained));
  return {};
}

Result<Attributes> TreeEdit::Revive(const Tomb& tomb, InodeId parent, std::string_view name) {
  Set(TombKey(tomb.attributes.inode), std::nullopt);
  Attributes attributes = tomb.attributes;
  attributes.ctime_ns = Time(attributes.ctime_ns);
  return Create(std::move(attributes), parent, name);
}

Result<void> TreeEdit::DropCapability(Attributes& attributes) {
  if (!attributes.has_xattr) return {};
  const RowKey capability = XattrKey(attributes.inode, "security.capability");
  if (!QUADFS_TRY(Read(capability))) return {};
  Set(capability, std::nullopt);
  bool any = false;
  QUADFS_TRY(ScanPrefix(XattrPrefix(attributes.inode), {}, [&](std::string_view, std::string_view) {
    any = true;
    return false;
  }));
  attributes.has_xattr = any;
  return {};
}

Result<Effects> TreeEdit::Take(OpResult result) {
  Effects effects;
  for (RowChange& change : rows_.Take()) {
    const auto before = QUADFS_TRY(Read(change.key));
    if (before != change.value) effects.rows.push_back(std::move(change));
  }
  effects.seen.reserve(seen_.size());
  for (const auto& [key, value] : seen_) effects.seen.emplace_back(key, RowHash(value));
  effects.result = std::move(result);
  return effects;
}

}  // namespace quadfs::metadata
