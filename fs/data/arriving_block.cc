#include "fs/data/arriving_block.h"

#include <cstring>

namespace quadfs::fs {

size_t ArrivingBlock::Append(std::span<const std::byte> bytes) {
  const size_t count = std::min(bytes.size(), capacity_ - filled_);
  if (count == 0) return 0;
  std::memcpy(data_.get() + filled_, bytes.data(), count);
  filled_ += count;
  MutexLock lock(mutex_);
  published_ = filled_;
  changed_.NotifyAll();
  return count;
}

void ArrivingBlock::End(bool good) {
  MutexLock lock(mutex_);
  if (state_ != State::kArriving) return;
  state_ = good ? State::kGood : State::kBad;
  changed_.NotifyAll();
}

Result<std::span<const std::byte>> ArrivingBlock::Await(size_t from, size_t length,
                                                        Deadline deadline) {
  MutexLock lock(mutex_);
  for (;;) {
    size_t upto = std::min(published_, length);
    if (state_ == State::kBad) upto = from;
    if (state_ == State::kArriving) upto = std::min(upto, length - std::min(length, kHeldBytes));
    if (upto > from) return std::span<const std::byte>(data_.get() + from, upto - from);
    if (state_ != State::kArriving) return std::span<const std::byte>();
    if (!changed_.WaitUntil(mutex_, deadline.at()) && deadline.Passed()) {
      return Error(ErrorCode::kTimedOut, "a block did not arrive in time");
    }
  }
}

}  // namespace quadfs::fs
