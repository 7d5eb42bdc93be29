#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "metadata/codec.h"
#include "metadata/row_store.h"
#include "transport/base/checksum.h"
#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace quadfs::metadata {

/// An ordered log with a hash chain, in one family of a store: value = chain 16, entry bytes.
/// Entries are numbered from 1. A log has a random seed, so two logs never share a history.
///
/// Appending is done by one thread at a time (the owner's lock); the rows go into the owner's own
/// batch, and readers see an entry only after Release, when it is durable.
/// Threads: Append by one at a time; everything else concurrently.
class SequenceLog {
 public:
  struct Item {
    uint64_t sequence = 0;
    Checksum chain;     ///< After this entry.
    std::string bytes;  ///< The entry as stored and sent.
  };

  SequenceLog(RowStore& store, Family family) : store_(store), family_(family) {}

  /// Reads where the log ends; makes a seed for a new one. Errors: kIo, kCorruption.
  Result<void> Open();

  /// Numbers the entry (its sequence field) and adds its rows to `batch`.
  uint64_t Append(LogEntry& entry, std::vector<RowChange>& batch);
  /// Entry as it came from elsewhere, stored verbatim under the next number.
  uint64_t AppendVerbatim(const std::string& bytes, std::vector<RowChange>& batch);
  /// Makes everything up to `sequence` visible to readers.
  void Release(uint64_t sequence);

  /// Last appended; last released; chain at the last appended.
  uint64_t last() const;
  uint64_t released() const;
  Checksum chain() const;
  uint64_t first() const;
  /// Chain before the first entry that is kept.
  Checksum start_chain() const;

  /// Errors: kStale: this log does not have that history (other chain, trimmed, ahead of us).
  Result<void> CheckHistory(uint64_t sequence, const Checksum& chain) const;
  /// Released entries after `after`, at most about `max_bytes`. Errors: kStale (trimmed), kIo.
  Result<std::vector<std::shared_ptr<const Item>>> Read(uint64_t after, size_t max_bytes) const;
  /// False if `deadline` passed first, or Poke was called.
  bool WaitBeyond(uint64_t after, Clock::TimePoint deadline) const;
  /// Wakes everyone in WaitBeyond.
  void Poke();

  /// Starts anew behind a bootstrap: empty, at `sequence` with `chain`; rows go into `batch`.
  void Restart(uint64_t sequence, const Checksum& chain, std::vector<RowChange>& batch);
  /// Cuts the front so that about `keep_bytes` stay.
  Result<void> Trim(uint64_t keep_bytes);

 private:
  RowKey MetaName(std::string_view name) const;

  static constexpr size_t kTailEntries = 8192;

  RowStore& store_;
  const Family family_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  uint64_t first_ QUADFS_GUARDED_BY(mutex_) = 1;
  uint64_t last_ QUADFS_GUARDED_BY(mutex_) = 0;
  uint64_t released_ QUADFS_GUARDED_BY(mutex_) = 0;
  uint64_t pokes_ QUADFS_GUARDED_BY(mutex_) = 0;
  Checksum chain_ QUADFS_GUARDED_BY(mutex_);
  Checksum start_chain_ QUADFS_GUARDED_BY(mutex_);  ///< Before entry first_.
  std::deque<std::shared_ptr<const Item>> tail_ QUADFS_GUARDED_BY(mutex_);
};

}  // namespace quadfs::metadata
