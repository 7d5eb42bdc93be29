#pragma once

#include <array>
#include <atomic>
#include <string>

#include "transport/base/error.h"
#include "transport/base/mutex.h"

namespace quadfs::cache {

/// What is wrong at present, for status: a full disk and a failing one come and go, what recovery
/// could not save stays until the next start. Threads: every method may be called concurrently.
class Health {
 public:
  enum Kind { kSpace, kDisk, kRecovery, kKinds };

  void Report(Kind kind, const std::string& message) {
    MutexLock lock(mutex_);
    problems_[kind] = message;
    any_[kind] = true;
  }
  void Report(const Error& error) {
    Report(error.code() == ErrorCode::kNoSpace ? kSpace : kDisk, error.message());
  }
  /// It went well this time.
  void Clear(Kind kind) {
    if (!any_[kind].load(std::memory_order_relaxed)) return;
    MutexLock lock(mutex_);
    problems_[kind].clear();
    any_[kind] = false;
  }
  std::string problem() const {
    MutexLock lock(mutex_);
    std::string all;
    for (const std::string& problem : problems_) {
      if (problem.empty()) continue;
      if (!all.empty()) all += "; ";
      all += problem;
    }
    return all;
  }

 private:
  mutable Mutex mutex_;
  std::array<std::string, kKinds> problems_ QUADFS_GUARDED_BY(mutex_);
  std::array<std::atomic<bool>, kKinds> any_{};
};

}  // namespace quadfs::cache
