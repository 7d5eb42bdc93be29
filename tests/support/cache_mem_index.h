#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cache/index_store.h"
#include "transport/base/mutex.h"

namespace quadfs::test {

/// IndexStore in memory that knows what a power cut may take: every write since the last Sync, from
/// some point on, as with a write-ahead log. `FailAfter` makes it a faulty disk.
class MemIndexStore final : public cache::IndexStore {
 public:
  MemIndexStore() = default;
  /// As a killed process left it: `rows` are all there.
  explicit MemIndexStore(std::map<std::string, std::string> rows)
      : rows_(std::move(rows)), synced_(rows_) {}

  Result<std::string> Get(std::string_view key) const override {
    MutexLock lock(mutex_);
    const auto found = rows_.find(std::string(key));
    if (found == rows_.end()) return Error(ErrorCode::kNotFound, "no such row");
    return found->second;
  }
  Result<void> Put(std::string_view key, std::string_view value) override {
    return Apply(
        [key = std::string(key), value = std::string(value)](Rows& rows) { rows[key] = value; });
  }
  Result<void> Erase(std::string_view key) override {
    return Apply([key = std::string(key)](Rows& rows) { rows.erase(key); });
  }
  Result<void> Move(std::string_view old_key, std::string_view new_key,
                    std::string_view value) override {
    return Apply([old_key = std::string(old_key), new_key = std::string(new_key),
                  value = std::string(value)](Rows& rows) {
      rows.erase(old_key);
      rows[new_key] = value;
    });
  }
  Result<void> Sync() override {
    MutexLock lock(mutex_);
    if (Fails()) return Error(ErrorCode::kIo, "sync fails");
    ++syncs_;
    synced_ = rows_;
    unsynced_.clear();
    return {};
  }
  Result<void> Scan(
      std::string_view prefix,
      const std::function<bool(std::string_view, std::string_view)>& row) const override {
    Rows copy;
    {
      MutexLock lock(mutex_);
      copy = rows_;
    }
    for (auto it = copy.lower_bound(std::string(prefix));
         it != copy.end() && it->first.starts_with(prefix); ++it) {
      if (!row(it->first, it->second)) break;
    }
    return {};
  }

  /// The power goes: of the writes since the last Sync only the first `kept` survive.
  void PowerCut(size_t kept) {
    MutexLock lock(mutex_);
    rows_ = synced_ = AfterPowerCut(kept);
    unsynced_.clear();
    writes_left_ = kUnlimited;
  }
  /// After `writes` more, every write fails until FailAfter(kUnlimited).
  void FailAfter(size_t writes) {
    MutexLock lock(mutex_);
    writes_left_ = writes;
  }
  size_t unsynced() const {
    MutexLock lock(mutex_);
    return unsynced_.size();
  }
  size_t syncs() const {
    MutexLock lock(mutex_);
    return syncs_;
  }
  size_t faults_fired() const {
    MutexLock lock(mutex_);
    return faults_fired_;
  }
  std::map<std::string, std::string> rows() const {
    MutexLock lock(mutex_);
    return rows_;
  }
  /// What a power cut now would leave if the first `kept` writes since the last Sync survive it.
  std::map<std::string, std::string> RowsAfterPowerCut(size_t kept) const {
    MutexLock lock(mutex_);
    return AfterPowerCut(kept);
  }
  /// Flips one bit of a stored row.
  void FlipBit(const std::string& key, size_t byte) {
    MutexLock lock(mutex_);
    char& target = rows_.at(key).at(byte);
    target = static_cast<char>(target ^ 0x10);
    synced_ = rows_;
    unsynced_.clear();
  }
  static constexpr size_t kUnlimited = ~size_t{0};

 private:
  using Rows = std::map<std::string, std::string>;
  Rows AfterPowerCut(size_t kept) const QUADFS_REQUIRES(mutex_) {
    Rows rows = synced_;
    for (size_t i = 0; i < kept && i < unsynced_.size(); ++i) unsynced_[i](rows);
    return rows;
  }
  bool Fails() QUADFS_REQUIRES(mutex_) {
    if (writes_left_ == kUnlimited) return false;
    if (writes_left_ > 0) {
      --writes_left_;
      return false;
    }
    ++faults_fired_;
    return true;
  }
  Result<void> Apply(std::function<void(Rows&)> change) {
    MutexLock lock(mutex_);
    if (Fails()) return Error(ErrorCode::kIo, "write fails");
    change(rows_);
    unsynced_.push_back(std::move(change));
    return {};
  }

  mutable Mutex mutex_;
  Rows rows_ QUADFS_GUARDED_BY(mutex_), synced_ QUADFS_GUARDED_BY(mutex_);
  std::vector<std::function<void(Rows&)>> unsynced_ QUADFS_GUARDED_BY(mutex_);
  size_t writes_left_ QUADFS_GUARDED_BY(mutex_) = kUnlimited;
  size_t syncs_ QUADFS_GUARDED_BY(mutex_) = 0, faults_fired_ QUADFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace quadfs::test
