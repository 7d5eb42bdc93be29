#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

#include "transport/base/clock.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"

namespace quadfs::fs {

/// One block while it comes in: one thread appends, others pass on what is there already
/// (cut-through forwarding), so that a hop costs a piece and not a block. The last piece is held
/// back until the whole was checked: what fails its check never leaves here whole.
/// Threads: Append and End from one; Await from any.
class ArrivingBlock {
 public:
  static constexpr size_t kHeldBytes = size_t{64} << 10;

  /// `bytes`: its length, or an upper bound if the sender alone knows it.
  explicit ArrivingBlock(size_t bytes)
      : data_(std::make_unique_for_overwrite<std::byte[]>(bytes)), capacity_(bytes) {}

  /// Takes as much of `bytes` as there is room for; returns how much.
  size_t Append(std::span<const std::byte> bytes);
  /// `good`: it was checked and stored. Idempotent: the first call counts.
  void End(bool good);
  /// Of the appending thread.
  std::span<const std::byte> bytes() const { return {data_.get(), filled_}; }
  bool full() const { return filled_ == capacity_; }

  /// The bytes after the first `from` of a block of `length` that may be passed on: waits for some.
  /// Empty: it ended without them. Valid while the block lives. Errors: kTimedOut.
  Result<std::span<const std::byte>> Await(size_t from, size_t length, Deadline deadline);

 private:
  enum class State { kArriving, kGood, kBad };

  const std::unique_ptr<std::byte[]> data_;
  const size_t capacity_;
  size_t filled_ = 0;  ///< Of the appending thread.
  Mutex mutex_;
  CondVar changed_;
  size_t published_ QUADFS_GUARDED_BY(mutex_) = 0;
  State state_ QUADFS_GUARDED_BY(mutex_) = State::kArriving;
};
using ArrivingBlockRef = std::shared_ptr<ArrivingBlock>;

}  // namespace quadfs::fs
