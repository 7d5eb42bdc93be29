#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace quadfs::tools {

/// A line on standard error that shows how far something is: share, bytes, rate, time left. Shown
/// on a terminal only, and only by what takes longer than two seconds. Threads: one.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  /// For tests: `shown` in place of asking whether standard error is a terminal.
  ProgressBar(std::string what, bool shown) : what_(std::move(what)), shown_(shown) {}
  ~ProgressBar();

  void Update(uint64_t done_bytes, uint64_t total_bytes, uint64_t done_files, uint64_t total_files);

  /// The line as it would be shown after `seconds`.
  std::string Line(uint64_t done_bytes, uint64_t total_bytes, uint64_t done_files,
                   uint64_t total_files, double seconds) const;

 private:
  std::string what_;
  bool shown_ = false;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace quadfs::tools
