#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metadata/execute.h"
#include "metadata/row_overlay.h"
#include "metadata/tree_rows.h"

namespace quadfs::metadata {

/// The state with one operation's changes over it. It keeps the tree's rows consistent with each
/// other (dentry, links, link counts, primary parent, tomb, times of directories) and remembers
/// what was read; it checks no permission and decides nothing.
/// Every method that takes a name expects what its comment says; the caller has looked.
/// Threads: one. Lifetime: within that of `state`.
class TreeEdit final : public RowReader {
 public:
  /// Times of directories: as the operation says, or, merging, never back.
  enum class Times { kExact, kNewest };

  TreeEdit(const RowReader& state, int64_t now_ns, Times times = Times::kExact)
      : rows_(state), now_ns_(now_ns), times_(times) {}

  Result<std::optional<std::string>> Read(const RowKey& key) const override;
  Result<void> ScanPrefix(const RowKey& prefix, const RowKey& from,
                          const RowCallback& row) const override {
    return rows_.ScanPrefix(prefix, from, row);
  }
  /// A reader of the same rows whose reads are not remembered as relied upon.
  const RowReader& unseen() const { return rows_; }

  void Set(const RowKey& key, std::optional<std::string> value) {
    rows_.Set(key, std::move(value));
  }
  void PutInode(const Attributes& attributes) {
    Set(InodeKey(attributes.inode), EncodeInode(attributes));
  }
  /// Later of the operation's time and `before` when merging, else the operation's.
  int64_t Time(int64_t before) const {
    return times_ == Times::kNewest && before > now_ns_ ? before : now_ns_;
  }

  /// A new inode and its first name, which is free. Parent, name, link count are filled in.
  Result<Attributes> Create(Attributes attributes, InodeId parent, std::string_view name);
  /// One more name, which is free, for a file.
  Result<Attributes> AddName(InodeId inode, InodeId parent, std::string_view name);
  /// Takes away a name it has. The last one: the inode goes, a tomb remembers it (returned with
  /// nlink 0). The primary one: the next by parent and name takes its place.
  Result<Attributes> RemoveName(InodeId inode, InodeId parent, std::string_view name);
  /// Gives a name it has another parent or name, which is free.
  Result<Attributes> MoveName(InodeId inode, const Place& from, const Place& to);
  /// Swaps two names of two inodes.
  Result<void> ExchangeNames(InodeId one, const Place& at_one, InodeId other,
                             const Place& at_other);
  /// A removed inode comes back under a name, which is free.
  Result<Attributes> Revive(const Tomb& tomb, InodeId parent, std::string_view name);

  /// Removes security.capability, as every change of content or owner does. The caller puts the
  /// inode afterwards.
  Result<void> DropCapability(Attributes& attributes);

  /// The rows that really change, with everything that was read.
  Result<Effects> Take(OpResult result);

 private:
  void PutName(const Attributes& attributes, const Place& place);
  void EraseName(InodeId inode, const Place& place);
  Result<void> TouchDirectory(InodeId directory, int subdirectories);

  RowOverlay rows_;
  int64_t now_ns_;
  Times times_;
  mutable std::map<RowKey, std::optional<std::string>> seen_;  ///< As they were before.
};

}  // namespace quadfs::metadata
