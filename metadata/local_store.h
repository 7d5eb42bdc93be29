#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/result.h"

namespace quadfs::metadata {

/// Rows that belong to this machine alone (cache index, journal, write-back queue, held files),
/// in a RocksDB of its own, so that the replica can be thrown away and rebuilt.
/// Threads: every method may be called concurrently. A write survives a killed process at once,
/// and a power cut after the next Sync.
class LocalStore {
 public:
  /// Changes that become visible together.
  struct Batch {
    struct Item {
      std::string family, key, value;
      bool erase = false;
    };
    std::vector<Item> items;
    void Put(std::string family, std::string key, std::string value) {
      items.push_back({std::move(family), std::move(key), std::move(value), false});
    }
    void Erase(std::string family, std::string key) {
      items.push_back({std::move(family), std::move(key), {}, true});
    }
  };

  /// Opens or creates it with these families. Errors: kIo, kCorruption, kInvalidArgument (a newer
  /// format), kBusy (another process has it).
  static Result<std::unique_ptr<LocalStore>> Open(const std::string& directory,
                                                  const std::vector<std::string>& families);
  virtual ~LocalStore() = default;

  virtual Result<std::string> Get(std::string_view family, std::string_view key) const = 0;
  virtual Result<void> Put(std::string_view family, std::string_view key,
                           std::string_view value) = 0;
  virtual Result<void> Erase(std::string_view family, std::string_view key) = 0;
  virtual Result<void> Write(const Batch& batch) = 0;
  /// Makes all earlier writes survive a power cut.
  virtual Result<void> Sync() = 0;
  /// Calls `row` for each key with `prefix`, from `from` on, in byte order, until it returns false.
  virtual Result<void> Scan(
      std::string_view family, std::string_view prefix, std::string_view from,
      const std::function<bool(std::string_view key, std::string_view value)>& row) const = 0;
};

}  // namespace quadfs::metadata
