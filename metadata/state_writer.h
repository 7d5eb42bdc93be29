#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "metadata/row_overlay.h"
#include "metadata/row_store.h"

namespace quadfs::metadata {

/// Totals and parents of directories that were touched lately, so that a change far down does not
/// read its whole chain from the store each time. Bounded. Belongs to the one thread that writes
/// the state; Clear it when rows were written beside StateWriter or a Take was not written.
class TotalsCache {
 public:
  struct Directory {
    Totals totals;
    bool exists = false;  ///< It has an inode row.
    InodeId parent;
    bool stored = false;  ///< There is a total row.
  };
  explicit TotalsCache(size_t capacity = 65536) : capacity_(capacity) {}
  const Directory* Find(InodeId directory) const;
  void Put(InodeId directory, const Directory& value);
  void Clear() { directories_.clear(); }

 private:
  size_t capacity_;
  std::unordered_map<InodeId, Directory> directories_;
};

/// Collects changes of state rows on top of a reader, for one atomic write. Reads see them.
///
/// Totals are derived here and only here: setting an inode, location or dentry row moves its
/// contribution along the chain of primary parents (a directory carries its total along), in
/// whatever order rows come. While rows are torn into a loop of directories, one of the loop is
/// left out of its parent's totals, remembered (total row of inode 0), and put back when the loop
/// is gone. So once no loop is left, totals are a pure function of the state.
/// Setting a total row itself is ignored.
/// Threads: one. Lifetime: within that of `base` and `cache`; `base` does not change meanwhile.
class StateWriter : public RowReader {
 public:
  StateWriter(const RowReader& base, TotalsCache& cache);

  /// Errors: kCorruption (a row that cannot be decoded, the change is not taken), kIo.
  Result<void> Set(const RowChange& change);
  Result<void> SetAll(const std::vector<RowChange>& changes);

  Result<std::optional<std::string>> Read(const RowKey& key) const override;
  Result<void> ScanPrefix(const RowKey& prefix, const RowKey& from,
                          const RowCallback& row) const override;

  /// Every changed row, in key order, totals included. The writer is empty afterwards; what it
  /// returned must be written, or the cache cleared.
  std::vector<RowChange> Take();
  bool empty() const { return rows_.changes().empty(); }
  size_t row_count() const { return rows_.changes().size(); }

 private:
  struct InodeRow;  ///< An inode's row with what it adds to its parent's totals.

  Result<InodeRow> Describe(InodeId inode, const std::optional<std::string>& row,
                            const std::optional<std::string>& locations) const;
  Result<TotalsCache::Directory*> Load(InodeId directory);
  Result<void> AddToChain(InodeId directory, const Totals& part, bool add);
  Result<bool> ChainReaches(InodeId from, InodeId directory);
  Result<void> SetInode(InodeId inode, const RowChange& change);
  Result<void> MoveInode(InodeId inode, const InodeRow& before, const InodeRow& after);
  Result<void> SetLocation(InodeId inode, const RowChange& change);
  Result<void> SetDentry(const RowChange& change);
  Result<void> LoadDetached();
  Result<void> Reattach();

  RowOverlay rows_;
  TotalsCache& cache_;
  std::unordered_map<InodeId, TotalsCache::Directory> directories_;  ///< Changed or read here.
  std::set<InodeId> totals_changed_;
  std::optional<std::set<InodeId>> detached_;  ///< Loaded at the first need.
  bool detached_changed_ = false;
};

}  // namespace quadfs::metadata
