#include "metadata/row_overlay.h"

namespace quadfs::metadata {

Result<std::optional<std::string>> RowOverlay::Read(const RowKey& key) const {
  const auto found = changes_.find(key);
  if (found != changes_.end()) return found->second;
  return base_.Read(key);
}

Result<void> RowOverlay::ScanPrefix(const RowKey& prefix, const RowKey& from,
                                    const RowCallback& row) const {
  auto change = changes_.lower_bound(from > prefix ? from : prefix);
  bool more = true;
  const auto in_prefix = [&] {
    return change != changes_.end() && change->first.starts_with(prefix);
  };
  // Changes with a key before `limit` (nothing: all that are left).
  const auto emit_before = [&](std::optional<std::string_view> limit) {
    for (; more && in_prefix() && (!limit || change->first < *limit); ++change) {
      if (change->second) more = row(change->first, *change->second);
    }
  };
  QUADFS_TRY(base_.ScanPrefix(prefix, from, [&](std::string_view key, std::string_view value) {
    emit_before(key);
    if (!more) return false;
    if (in_prefix() && change->first == key) {
      if (change->second) more = row(change->first, *change->second);
      ++change;
    } else {
      more = row(key, value);
    }
    return more;
  }));
  emit_before(std::nullopt);
  return {};
}

std::vector<RowChange> RowOverlay::Take() {
  std::vector<RowChange> taken;
  taken.reserve(changes_.size());
  while (!changes_.empty()) {
    auto node = changes_.extract(changes_.begin());
    taken.push_back({std::move(node.key()), std::move(node.mapped())});
  }
  return taken;
}

}  // namespace quadfs::metadata
