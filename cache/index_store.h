#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "transport/base/result.h"

namespace quadfs::cache {

/// Where cache and store keep their small rows; `fs` gives them the machine's LocalStore.
/// A write survives a killed process at once and a power cut after Sync.
/// Threads: every method may be called concurrently.
class IndexStore {
 public:
  virtual ~IndexStore() = default;
  virtual Result<std::string> Get(std::string_view key) const = 0;
  virtual Result<void> Put(std::string_view key, std::string_view value) = 0;
  virtual Result<void> Erase(std::string_view key) = 0;
  /// Erases `old_key` and puts `new_key`, both or neither.
  virtual Result<void> Move(std::string_view old_key, std::string_view new_key,
                            std::string_view value) = 0;
  virtual Result<void> Sync() = 0;
  /// Every row in key order until `row` returns false.
  virtual Result<void> Scan(
      std::string_view prefix,
      const std::function<bool(std::string_view key, std::string_view value)>& row) const = 0;
};

}  // namespace quadfs::cache
