#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define QUADFS_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define QUADFS_THREAD_ANNOTATION(x)
#endif
#define QUADFS_CAPABILITY(x) QUADFS_THREAD_ANNOTATION(capability(x))
#define QUADFS_SCOPED_CAPABILITY QUADFS_THREAD_ANNOTATION(scoped_lockable)
#define QUADFS_GUARDED_BY(x) QUADFS_THREAD_ANNOTATION(guarded_by(x))
#define QUADFS_REQUIRES(...) QUADFS_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define QUADFS_EXCLUDES(...) QUADFS_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define QUADFS_ACQUIRE(...) QUADFS_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define QUADFS_RELEASE(...) QUADFS_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define QUADFS_NO_THREAD_SAFETY_ANALYSIS QUADFS_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace quadfs {

/// std::mutex that clang's thread-safety analysis understands.
class QUADFS_CAPABILITY("mutex") Mutex {
 public:
  void lock() QUADFS_ACQUIRE() { mutex_.lock(); }
  void unlock() QUADFS_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

/// Holds a Mutex for a scope.
class QUADFS_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) QUADFS_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() QUADFS_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Condition variable for Mutex. Callers loop over their condition themselves.
class CondVar {
 public:
  void Wait(Mutex& mutex) QUADFS_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  /// False if `deadline` came first.
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      QUADFS_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const auto status = condition_.wait_until(lock, deadline);
    lock.release();
    return status == std::cv_status::no_timeout;
  }
  /// False if `duration` passed first.
  bool WaitFor(Mutex& mutex, std::chrono::steady_clock::duration duration) QUADFS_REQUIRES(mutex) {
    return WaitUntil(mutex, std::chrono::steady_clock::now() + duration);
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace quadfs
