#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metadata/format.h"
#include "transport/base/result.h"

namespace quadfs::metadata {

/// Rows by key, as they are in a store, in a snapshot of it, or with changes laid over.
class RowReader {
 public:
  /// Called per row; false ends the scan.
  using RowCallback = std::function<bool(std::string_view key, std::string_view value)>;

  virtual ~RowReader() = default;
  /// Nothing: no such row. Errors: kIo, kCorruption.
  virtual Result<std::optional<std::string>> Read(const RowKey& key) const = 0;
  /// Rows with `prefix` (family byte first), in key order, from `from` on (empty: all of them).
  virtual Result<void> ScanPrefix(const RowKey& prefix, const RowKey& from,
                                  const RowCallback& row) const = 0;
};

/// A position in one family; keys come without the family byte. Not for two threads at once.
/// Lifetime: within that of the store or snapshot it came from.
class RowCursor {
 public:
  virtual ~RowCursor() = default;
  virtual void Seek(std::string_view key) = 0;
  virtual void Next() = 0;
  virtual bool valid() const = 0;  ///< False at the end, and after an error.
  virtual std::string_view key() const = 0;
  virtual std::string_view value() const = 0;
  virtual Result<void> status() const = 0;
};

/// The store as it was at one moment. Lifetime: within the store's. Short-lived: it holds back
/// compaction.
class RowSnapshot : public RowReader {
 public:
  /// A cursor over one family in key order. `one_directory`: it is only moved within keys that
  /// share their first 8 bytes (faster).
  virtual std::unique_ptr<RowCursor> NewCursor(Family family, bool one_directory = false) const = 0;
  /// Values of many rows of one family, in the order of `keys`.
  virtual Result<std::vector<std::optional<std::string>>> ReadMany(
      const std::vector<RowKey>& keys) const = 0;
};

/// Fills one family of a fresh store from sorted rows, beside its write path.
class RowIngest {
 public:
  virtual ~RowIngest() = default;
  /// Keys (with family byte) strictly ascending. Errors: kInvalidArgument, kIo, kNoSpace.
  virtual Result<void> Add(std::string_view key, std::string_view value) = 0;
  /// Makes the rows visible, durably. Dropped without it: nothing was added.
  virtual Result<void> Finish() = 0;
};

/// The RocksDB of a hub's or a node's replica: one column family per Family.
///
/// Threads: every method may be called concurrently; writers queue inside.
class RowStore : public RowReader {
 public:
  struct Options {
    std::string cluster;                              ///< Written at first open, compared later.
    uint64_t block_cache_bytes = uint64_t{64} << 20;  ///< Shared by all families.
    uint64_t memtable_bytes = uint64_t{16} << 20;     ///< Of one family, before it is flushed.
    uint64_t memtables_bytes = uint64_t{64} << 20;    ///< Of all together.
    int max_open_files = 512;
    int background_jobs = 2;
  };

  /// Opens or creates. Errors: kBusy (another process has it), kInvalidArgument (a newer format,
  /// another cluster), kCorruption, kIo.
  static Result<std::unique_ptr<RowStore>> Open(const std::string& directory,
                                                const Options& options);

  /// All changes become visible together. `sync`: they survive a power cut when it returns; else
  /// a killed process, and a power cut after the next SyncLog.
  virtual Result<void> Write(const std::vector<RowChange>& changes, bool sync) = 0;
  /// Makes all earlier writes survive a power cut.
  virtual Result<void> SyncLog() = 0;
  /// Erases [from, to) of one family with one tombstone; readers then start at `to` or later.
  virtual Result<void> EraseRange(Family family, const RowKey& from, const RowKey& to) = 0;

  virtual std::unique_ptr<RowSnapshot> Snapshot() const = 0;
  /// `directory` of the store holds the file until Finish. Only while the family is empty there.
  virtual Result<std::unique_ptr<RowIngest>> NewIngest(Family family) = 0;
  /// Bytes of [from, to) on disk and in memory, roughly.
  virtual uint64_t ApproximateBytes(Family family, const RowKey& from, const RowKey& to) const = 0;
};

}  // namespace quadfs::metadata
