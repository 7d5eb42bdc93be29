#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "metadata/row_store.h"

namespace quadfs::metadata {

/// Changes laid over a reader: reads see them, the reader does not. Threads: one.
/// Lifetime: within that of `base`.
class RowOverlay final : public RowReader {
 public:
  explicit RowOverlay(const RowReader& base) : base_(base) {}

  void Set(RowKey key, std::optional<std::string> value) {
    changes_.insert_or_assign(std::move(key), std::move(value));
  }
  Result<std::optional<std::string>> Read(const RowKey& key) const override;
  Result<void> ScanPrefix(const RowKey& prefix, const RowKey& from,
                          const RowCallback& row) const override;

  const RowReader& base() const { return base_; }
  const std::map<RowKey, std::optional<std::string>>& changes() const { return changes_; }
  /// The changes in key order; none are left.
  std::vector<RowChange> Take();

 private:
  const RowReader& base_;
  std::map<RowKey, std::optional<std::string>> changes_;
};

}  // namespace quadfs::metadata
