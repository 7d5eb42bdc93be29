#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "transport/base/result.h"

namespace quadfs::daemon {

/// Bytes from text: a whole number and a unit. "0", "4096", "200MB" (10^6), "1TiB" (2^40), "1.5GB".
/// Errors: kInvalidArgument, saying what is allowed.
Result<uint64_t> ParseBytes(std::string_view text);

/// Time from text: "500ms", "30s", "5min", "2h", "7d"; a bare number is seconds.
/// Errors: kInvalidArgument, saying what is allowed.
Result<std::chrono::milliseconds> ParseDuration(std::string_view text);

/// For people: "0 B", "20.0 KB", "1.5 GB" (powers of 1000).
std::string FormatBytes(uint64_t bytes);
/// For the configuration file: exact, "200MB", "1TiB", "4097".
std::string ExactBytes(uint64_t bytes);
/// For people: "0.4 s", "35 s", "4 min 10 s", "2 h 5 min".
std::string FormatSeconds(double seconds);

}  // namespace quadfs::daemon
