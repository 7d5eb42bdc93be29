#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "metadata/row_store.h"
#include "metadata/types.h"

namespace quadfs::test {

/// Rows in memory: the twin of a RowStore for everything that takes a RowReader.
class MapRows final : public metadata::RowReader {
 public:
  Result<std::optional<std::string>> Read(const metadata::RowKey& key) const override;
  Result<void> ScanPrefix(const metadata::RowKey& prefix, const metadata::RowKey& from,
                          const RowCallback& row) const override;
  void Set(const metadata::RowKey& key, const std::optional<std::string>& value);
  void Apply(const std::vector<metadata::RowChange>& changes);
  const std::map<std::string, std::string>& rows() const { return rows_; }

 private:
  std::map<std::string, std::string> rows_;
};

/// All rows of a reader, family by family.
std::map<std::string, std::string> AllRows(const metadata::RowReader& rows);

/// Everything that is wrong with the tree in these rows: dangling, unreachable or doubly parented
/// inodes, stale links, wrong link counts, loops. Empty: a well-formed tree.
std::vector<std::string> TreeFaults(const metadata::RowReader& rows);

/// Totals of every directory, added up from the inode, location and dentry rows alone. Only for a
/// tree without loops.
std::map<InodeId, metadata::Totals> TotalsFromScratch(const metadata::RowReader& rows);
/// The total rows as they are stored.
std::map<InodeId, metadata::Totals> StoredTotals(const metadata::RowReader& rows);

}  // namespace quadfs::test
