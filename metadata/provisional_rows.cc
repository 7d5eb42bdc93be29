#include "metadata/provisional_rows.h"

namespace quadfs::metadata {

Result<void> ProvisionalRows::Cover(const RowReader& state, uint64_t node_op,
                                    const std::vector<RowChange>& rows,
                                    std::vector<RowChange>& batch) {
  std::vector<RowKey> keys;
  std::vector<std::optional<std::string>> below;
  for (const RowChange& row : rows) {
    keys.push_back(row.key);
    below.push_back(shadows_.contains(row.key) ? std::nullopt : QUADFS_TRY(state.Read(row.key)));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto [at, first] = shadows_.try_emplace(keys[i], ShadowRow{0, std::move(below[i])});
    ++at->second.count;
    // How many lie on top is of no use after a restart: only the first is written.
    if (first) batch.push_back({ShadowKey(keys[i]), EncodeShadow(at->second)});
  }
  operations_[node_op] = std::move(keys);
  return {};
}

std::vector<RowChange> ProvisionalRows::Visible(const std::vector<RowChange>& rows,
                                                std::vector<RowChange>& batch) {
  if (shadows_.empty()) return rows;
  std::vector<RowChange> visible;
  for (const RowChange& row : rows) {
    const auto found = shadows_.find(row.key);
    if (found == shadows_.end()) {
      visible.push_back(row);
      continue;
    }
    found->second.value = row.value;
    batch.push_back({ShadowKey(row.key), EncodeShadow(found->second)});
  }
  return visible;
}

Result<std::vector<RowChange>> ProvisionalRows::Reveal(const RowReader& state, uint64_t node_op,
                                                       std::vector<RowChange>& batch) {
  std::vector<RowChange> shown;
  const auto operation = operations_.find(node_op);
  if (operation == operations_.end()) return shown;
  for (const RowKey& key : operation->second) {
    const auto found = shadows_.find(key);
    if (found == shadows_.end()) continue;
    if (--found->second.count > 0) continue;
    // Usually the log says what is shown already.
    if (QUADFS_TRY(state.Read(key)) != found->second.value) {
      shown.push_back({key, std::move(found->second.value)});
    }
    batch.push_back({ShadowKey(key), std::nullopt});
    shadows_.erase(found);
  }
  operations_.erase(operation);
  return shown;
}

void ProvisionalRows::Clear() {
  shadows_.clear();
  operations_.clear();
}

Result<std::vector<RowChange>> ProvisionalRows::Restored(const RowReader& store,
                                                         std::vector<RowChange>& batch) {
  std::vector<RowChange> rows;
  Result<void> readable;
  const auto scanned =
      store.ScanPrefix(RowKey(1, static_cast<char>(Family::kShadow)), {},
                       [&](std::string_view key, std::string_view value) {
                         auto shadow = DecodeShadow(value);
                         if (!shadow.ok()) {
                           readable = std::move(shadow).error();
                           return false;
                         }
                         rows.push_back({RowKey(key.substr(1)), std::move(shadow->value)});
                         batch.push_back({RowKey(key), std::nullopt});
                         return true;
                       });
  if (!scanned.ok()) return scanned.error();
  if (!readable.ok()) return readable.error();
  return rows;
}

}  // namespace quadfs::metadata
