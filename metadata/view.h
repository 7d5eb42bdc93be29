#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metadata/types.h"
#include "transport/base/result.h"

namespace quadfs::metadata {

/// The namespace as this process sees it now: local reads of a hub's or node's replica, no network.
/// A dentry whose inode row is missing, or disagrees, is not shown (rows may be torn for a moment).
/// Threads: every method may be called concurrently.
/// Errors: kNotFound unless said otherwise; kIo, kCorruption from the database.
class View {
 public:
  virtual ~View() = default;

  /// Also answers "." and "..". Errors: kNotFound, kNotDirectory, kNameTooLong.
  virtual Result<Attributes> Lookup(InodeId parent, std::string_view name) const = 0;
  /// Also finds inodes that were removed and are remembered (nlink 0).
  virtual Result<Attributes> Get(InodeId inode) const = 0;
  /// Entries with a name after `after` (byte order; empty: from the start), at most `limit`,
  /// without "." and "..". Fewer than `limit`: that was the end.
  virtual Result<std::vector<DirectoryEntry>> List(InodeId directory, std::string_view after,
                                                   size_t limit, bool with_attributes) const = 0;
  /// Errors: kNoAttribute.
  virtual Result<std::string> GetXattr(InodeId inode, std::string_view name) const = 0;
  virtual Result<std::vector<std::string>> ListXattr(InodeId inode) const = 0;

  /// Holders of any version, current or older.
  virtual Result<std::vector<Location>> Locations(InodeId inode) const = 0;
  /// Errors: kNotDirectory.
  virtual Result<Totals> SubtreeTotals(InodeId directory) const = 0;
  /// Primary name of an inode: its parent and name. The root has none (kInvalidArgument).
  virtual Result<std::pair<InodeId, std::string>> NameOf(InodeId inode) const = 0;
  /// Path below the root by primary names, without leading "/"; "" is the root.
  virtual Result<std::string> PathOf(InodeId inode) const = 0;
  /// Walks `path` (relative to the root, no symlinks followed), checking search permission for
  /// `credentials`. Errors: kNotFound, kNotDirectory, kAccess.
  virtual Result<Attributes> Resolve(std::string_view path,
                                     const Credentials& credentials) const = 0;

  /// The inode that carries that version since it lost a merge: the conflict copy. None: it did
  /// not.
  virtual Result<std::optional<InodeId>> ForkOf(const ObjectId& object) const = 0;

  /// Names by id. Errors: kNotFound.
  virtual Result<Member> FindMember(CampusId campus, NodeId node) const = 0;
  virtual Result<std::vector<Member>> Members() const = 0;

  /// Last entry applied.
  virtual SequenceNumber Position() const = 0;
};

/// True if `credentials` may do `access` (bits 4 read, 2 write, 1 execute or search).
bool MayAccess(const Attributes& attributes, const Credentials& credentials, uint32_t access);

}  // namespace quadfs::metadata
