#include "metadata/tree_rows.h"

namespace quadfs::metadata {

Result<std::optional<Attributes>> FindInode(const RowReader& rows, InodeId inode) {
  const auto row = QUADFS_TRY(rows.Read(InodeKey(inode)));
  if (!row) return std::optional<Attributes>();
  return std::optional(QUADFS_TRY(DecodeInode(inode, *row)));
}

Result<Attributes> ReadInode(const RowReader& rows, InodeId inode) {
  auto found = QUADFS_TRY(FindInode(rows, inode));
  if (!found) return Error(ErrorCode::kNotFound, "no such inode");
  return std::move(*found);
}

Result<std::optional<Tomb>> FindTomb(const RowReader& rows, InodeId inode) {
  const auto row = QUADFS_TRY(rows.Read(TombKey(inode)));
  if (!row) return std::optional<Tomb>();
  return std::optional(QUADFS_TRY(DecodeTomb(inode, *row)));
}

Result<std::optional<InodeId>> FindFork(const RowReader& rows, InodeId inode,
                                        Generation generation) {
  const auto row = QUADFS_TRY(rows.Read(ForkKey(inode, generation)));
  if (!row) return std::optional<InodeId>();
  return std::optional(QUADFS_TRY(DecodeInodeId(*row)));
}

Result<Attributes> ReadDirectory(const RowReader& rows, InodeId inode) {
  Attributes attributes = QUADFS_TRY(ReadInode(rows, inode));
  if (attributes.type != FileType::kDirectory) {
    return Error(ErrorCode::kNotDirectory, "not a directory");
  }
  return attributes;
}

bool IsPrimaryName(const Attributes& attributes, InodeId parent, std::string_view name) {
  return attributes.parent == parent && attributes.name_hash == NameHash(name);
}

Result<bool> HasName(const RowReader& rows, const Attributes& attributes, InodeId parent,
                     std::string_view name) {
  if (IsPrimaryName(attributes, parent, name)) return true;
  if (attributes.type == FileType::kDirectory) return false;
  return QUADFS_TRY(rows.Read(LinkKey(attributes.inode, parent, name))).has_value();
}

Result<std::optional<Attributes>> FindName(const RowReader& rows, InodeId parent,
                                           std::string_view name) {
  const auto row = QUADFS_TRY(rows.Read(DentryKey(parent, name)));
  if (!row) return std::optional<Attributes>();
  const Dentry dentry = QUADFS_TRY(DecodeDentry(*row));
  auto attributes = QUADFS_TRY(FindInode(rows, dentry.inode));
  if (!attributes) return attributes;
  const bool shown = QUADFS_TRY(HasName(rows, *attributes, parent, name));
  return shown ? std::move(attributes) : std::optional<Attributes>();
}

Result<std::vector<Place>> NamesOf(const RowReader& rows, InodeId inode, size_t limit) {
  std::vector<Place> names;
  bool malformed = false;
  QUADFS_TRY(rows.ScanPrefix(LinkPrefix(inode), {}, [&](std::string_view key, std::string_view) {
    if (names.size() >= limit) return false;
    const auto parts = ParseLinkKey(key);
    malformed = !parts;
    if (parts) names.emplace_back(parts->parent, parts->name);
    return !malformed;
  }));
  if (malformed) return Error(ErrorCode::kCorruption, "link key is malformed");
  return names;
}

Result<std::optional<Place>> PrimaryName(const RowReader& rows, const Attributes& attributes) {
  std::optional<Place> found;
  QUADFS_TRY(rows.ScanPrefix(LinkPrefix(attributes.inode, attributes.parent), {},
                             [&](std::string_view key, std::string_view) {
                               const auto parts = ParseLinkKey(key);
                               if (parts && NameHash(parts->name) == attributes.name_hash) {
                                 found.emplace(parts->parent, parts->name);
                               }
                               return !found.has_value();
                             }));
  return found;
}

Result<bool> HasEntries(const RowReader& rows, InodeId directory) {
  bool any = false;
  QUADFS_TRY(rows.ScanPrefix(DentryPrefix(directory), {}, [&](std::string_view, std::string_view) {
    any = true;
    return false;
  }));
  return any;
}

Result<bool> IsWithin(const RowReader& rows, InodeId directory, InodeId inode) {
  InodeId current = directory;
  for (size_t depth = 0; depth < kMaxDepth && current; ++depth) {
    if (current == inode) return true;
    const auto attributes = QUADFS_TRY(FindInode(rows, current));
    if (!attributes) return false;
    current = attributes->parent;
  }
  if (current) return Error(ErrorCode::kCorruption, "directories form a loop");
  return false;
}

}  // namespace quadfs::metadata
