#pragma once

#include <map>
#include <string>
#include <utility>

#include "cache/index_store.h"
#include "metadata/local_store.h"
#include "transport/base/mutex.h"

namespace quadfs::test {

/// A LocalStore in memory, for many threads; it outlives what is "killed" in a test.
class SharedLocalStore final : public metadata::LocalStore {
 public:
  Result<std::string> Get(std::string_view family, std::string_view key) const override {
    MutexLock lock(mutex_);
    const auto found = rows_.find({std::string(family), std::string(key)});
    if (found == rows_.end()) return Error(ErrorCode::kNotFound, "no such row");
    return found->second;
  }
  Result<void> Put(std::string_view family, std::string_view key, std::string_view value) override {
    MutexLock lock(mutex_);
    rows_[{std::string(family), std::string(key)}] = std::string(value);
    return {};
  }
  Result<void> Erase(std::string_view family, std::string_view key) override {
    MutexLock lock(mutex_);
    rows_.erase({std::string(family), std::string(key)});
    return {};
  }
  Result<void> Write(const Batch& batch) override {
    MutexLock lock(mutex_);
    for (const auto& item : batch.items) {
      if (item.erase)
        rows_.erase({item.family, item.key});
      else
        rows_[{item.family, item.key}] = item.value;
    }
    return {};
  }
  Result<void> Sync() override { return {}; }
  Result<void> Scan(
      std::string_view family, std::string_view prefix, std::string_view from,
      const std::function<bool(std::string_view, std::string_view)>& row) const override {
    const auto copy = Rows();
    for (const auto& [key, value] : copy) {
      if (key.first != family || !key.second.starts_with(prefix) || key.second < from) continue;
      if (!row(key.second, value)) break;
    }
    return {};
  }
  std::map<std::pair<std::string, std::string>, std::string> Rows() const {
    MutexLock lock(mutex_);
    return rows_;
  }
  size_t CountOf(const std::string& family) const {
    size_t count = 0;
    for (const auto& [key, value] : Rows()) count += key.first == family ? 1 : 0;
    return count;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::string> rows_ QUADFS_GUARDED_BY(mutex_);
};

/// One family of it as a cache's or store's index.
class FamilyIndex final : public cache::IndexStore {
 public:
  FamilyIndex(SharedLocalStore& store, std::string family)
      : store_(store), family_(std::move(family)) {}
  Result<std::string> Get(std::string_view key) const override { return store_.Get(family_, key); }
  Result<void> Put(std::string_view key, std::string_view value) override {
    return store_.Put(family_, key, value);
  }
  Result<void> Erase(std::string_view key) override { return store_.Erase(family_, key); }
  Result<void> Move(std::string_view old_key, std::string_view new_key,
                    std::string_view value) override {
    metadata::LocalStore::Batch batch;
    batch.Erase(family_, std::string(old_key));
    batch.Put(family_, std::string(new_key), std::string(value));
    return store_.Write(batch);
  }
  Result<void> Sync() override { return {}; }
  Result<void> Scan(
      std::string_view prefix,
      const std::function<bool(std::string_view, std::string_view)>& row) const override {
    return store_.Scan(family_, prefix, "", row);
  }

 private:
  SharedLocalStore& store_;
  const std::string family_;
};

}  // namespace quadfs::test
