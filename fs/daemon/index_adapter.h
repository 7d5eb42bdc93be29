#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "cache/index_store.h"
#include "metadata/local_store.h"

namespace quadfs::daemon {

/// One family of the machine's LocalStore as the rows of a cache or store. Holds nothing itself.
/// Threads: every method may be called concurrently. Lifetime: the store outlives it.
class IndexAdapter final : public cache::IndexStore {
 public:
  IndexAdapter(metadata::LocalStore& store, std::string family)
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
  Result<void> Sync() override { return store_.Sync(); }
  Result<void> Scan(
      std::string_view prefix,
      const std::function<bool(std::string_view key, std::string_view value)>& row) const override {
    return store_.Scan(family_, prefix, "", row);
  }

 private:
  metadata::LocalStore& store_;
  std::string family_;
};

}  // namespace quadfs::daemon
