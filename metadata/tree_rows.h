#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metadata/format.h"
#include "metadata/row_store.h"

namespace quadfs::metadata {

/// Reads of the tree in terms of rows, for all who walk it (view, operations, leases, merge).

/// Errors: kNotFound.
Result<Attributes> ReadInode(const RowReader& rows, InodeId inode);
Result<std::optional<Attributes>> FindInode(const RowReader& rows, InodeId inode);
Result<std::optional<Tomb>> FindTomb(const RowReader& rows, InodeId inode);
/// The conflict copy that carries that version of the inode since it lost a merge, if it did.
Result<std::optional<InodeId>> FindFork(const RowReader& rows, InodeId inode,
                                        Generation generation);
/// Errors: kNotFound, kNotDirectory.
Result<Attributes> ReadDirectory(const RowReader& rows, InodeId inode);

/// True if the name is the inode's primary one.
bool IsPrimaryName(const Attributes& attributes, InodeId parent, std::string_view name);
/// True if `attributes`' inode has this name: else its dentry is torn and not to be shown.
Result<bool> HasName(const RowReader& rows, const Attributes& attributes, InodeId parent,
                     std::string_view name);
/// The inode of a name; nothing if there is none that may be shown.
Result<std::optional<Attributes>> FindName(const RowReader& rows, InodeId parent,
                                           std::string_view name);

/// A name of an inode.
using Place = std::pair<InodeId, std::string>;
/// All names, at most `limit`, by parent and name.
Result<std::vector<Place>> NamesOf(const RowReader& rows, InodeId inode, size_t limit);
/// The primary name; nothing if its link row is missing.
Result<std::optional<Place>> PrimaryName(const RowReader& rows, const Attributes& attributes);

/// True if the directory has a row for any name.
Result<bool> HasEntries(const RowReader& rows, InodeId directory);
/// True if `inode` is `directory` or above it. Errors: kCorruption (a loop).
Result<bool> IsWithin(const RowReader& rows, InodeId directory, InodeId inode);

inline constexpr size_t kMaxDepth = 100000;  ///< Bound of every walk to the root.

}  // namespace quadfs::metadata
