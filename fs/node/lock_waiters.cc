#include "fs/node/lock_waiters.h"

#include <system_error>
#include <thread>

namespace quadfs::fs {

bool LockWaiters::Run(std::function<void()> wait) {
  {
    const MutexLock lock(mutex_);
    if (running_ >= kMax || stopping_) return false;
    ++running_;
  }
  try {
    // Detached, but counted: Stop returns only after its last step here.
    std::thread([this, wait = std::move(wait)] {
      wait();
      const MutexLock lock(mutex_);
      --running_;
      gone_.NotifyAll();
    }).detach();
  } catch (const std::system_error&) {
    const MutexLock lock(mutex_);
    --running_;
    return false;
  }
  return true;
}

void LockWaiters::Stop() {
  stopping_.store(true);
  MutexLock lock(mutex_);
  while (running_ > 0) gone_.Wait(mutex_);
}

}  // namespace quadfs::fs
