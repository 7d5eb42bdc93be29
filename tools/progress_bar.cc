#include "tools/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "fs/daemon/units.h"

namespace quadfs::tools {
namespace {

constexpr double kQuietSeconds = 2;
constexpr size_t kBarCharacters = 20;

}  // namespace

ProgressBar::ProgressBar(std::string what)
    : what_(std::move(what)), shown_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

std::string ProgressBar::Line(uint64_t done_bytes, uint64_t total_bytes, uint64_t done_files,
                              uint64_t total_files, double seconds) const {
  const double share =
      total_bytes > 0
          ? std::min(1.0, static_cast<double>(done_bytes) / static_cast<double>(total_bytes))
          : 1.0;
  const auto full = static_cast<size_t>(share * kBarCharacters);
  std::string line =
      what_ + " [" + std::string(full, '#') + std::string(kBarCharacters - full, '.') + "] " +
      std::to_string(static_cast<int>(share * 100)) + " %  " + daemon::FormatBytes(done_bytes) +
      " of " + daemon::FormatBytes(total_bytes) + ", " + std::to_string(done_files) + " of " +
      std::to_string(total_files) + " files";
  const double rate = seconds > 0 ? static_cast<double>(done_bytes) / seconds : 0;
  if (rate >= 1 && done_bytes < total_bytes) {
    line += ", " + daemon::FormatBytes(static_cast<uint64_t>(rate)) + "/s, " +
            daemon::FormatSeconds(static_cast<double>(total_bytes - done_bytes) / rate) + " left";
  }
  return line;
}

void ProgressBar::Update(uint64_t done_bytes, uint64_t total_bytes, uint64_t done_files,
                         uint64_t total_files) {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  if (!shown_ || seconds < kQuietSeconds) return;
  drawn_ = true;
  std::fprintf(stderr, "\r\033[K%s",
               Line(done_bytes, total_bytes, done_files, total_files, seconds).c_str());
  std::fflush(stderr);
}

}  // namespace quadfs::tools
