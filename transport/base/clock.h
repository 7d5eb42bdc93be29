#pragma once

#include <chrono>
#include <cstdint>

namespace quadfs {

/// Time, so that tests can move it. `Now` never goes back and is the only one that decides
/// anything; `WallNanoseconds` is an attribute of files and of log lines, nothing more.
/// Threads: every method may be called concurrently.
class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
  /// Nanoseconds since 1970-01-01 UTC.
  virtual int64_t WallNanoseconds() const = 0;

  /// The machine's clock.
  static Clock& System();
};

/// The moment by which a call must have ended, in any way.
class Deadline {
 public:
  explicit Deadline(Clock::TimePoint at) : at_(at) {}
  static Deadline After(Clock::Duration duration) {
    return Deadline(std::chrono::steady_clock::now() + duration);
  }
  Clock::TimePoint at() const { return at_; }
  bool Passed() const { return std::chrono::steady_clock::now() >= at_; }
  /// Time left, at least zero.
  std::chrono::milliseconds Left() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        at_ - std::chrono::steady_clock::now());
    return left.count() > 0 ? left : std::chrono::milliseconds(0);
  }

 private:
  Clock::TimePoint at_;
};

}  // namespace quadfs
