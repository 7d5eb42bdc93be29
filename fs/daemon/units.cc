#include "fs/daemon/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace quadfs::daemon {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

constexpr std::array<Unit, 15> kByteUnits{{{"", 1},
                                           {"B", 1},
                                           {"kB", 1'000},
                                           {"KB", 1'000},
                                           {"MB", 1'000'000},
                                           {"GB", 1'000'000'000},
                                           {"TB", 1'000'000'000'000},
                                           {"PB", 1'000'000'000'000'000},
                                           {"KiB", uint64_t{1} << 10},
                                           {"MiB", uint64_t{1} << 20},
                                           {"GiB", uint64_t{1} << 30},
                                           {"TiB", uint64_t{1} << 40},
                                           {"PiB", uint64_t{1} << 50},
                                           {"MB/s", 1'000'000},
                                           {"GB/s", 1'000'000'000}}};
constexpr std::array<Unit, 7> kTimeUnits{{{"", 1000},
                                          {"ms", 1},
                                          {"s", 1000},
                                          {"min", 60'000},
                                          {"m", 60'000},
                                          {"h", 3'600'000},
                                          {"d", 86'400'000}}};

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Number and unit, exactly; false if the text is anything else or the result does not fit.
template <size_t kCount>
bool ParseQuantity(std::string_view text, const std::array<Unit, kCount>& units, uint64_t& out) {
  text = Trim(text);
  uint64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  double fraction = 0;
  if (text.starts_with('.')) {
    double scale = 0.1;
    text.remove_prefix(1);
    if (text.empty() || text[0] < '0' || text[0] > '9') return false;
    for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1), scale /= 10) {
      fraction += scale * (text[0] - '0');
    }
  }
  text = Trim(text);
  for (const Unit& unit : units) {
    if (unit.name != text) continue;
    uint64_t scaled = 0;
    if (__builtin_mul_overflow(whole, unit.factor, &scaled)) return false;
    const auto rest =
        static_cast<uint64_t>(std::llround(fraction * static_cast<double>(unit.factor)));
    return !__builtin_add_overflow(scaled, rest, &out);
  }
  return false;
}

std::string Printed(const char* format, double value, const char* unit) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value, unit);
  return text.data();
}

}  // namespace

Result<uint64_t> ParseBytes(std::string_view text) {
  uint64_t bytes = 0;
  if (ParseQuantity(text, kByteUnits, bytes)) return bytes;
  return Error(
      ErrorCode::kInvalidArgument,
      "'" + std::string(text) +
          "' is not a size; allowed: a number with B, KB, MB, GB, TB, KiB, MiB, GiB or TiB");
}

Result<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  uint64_t milliseconds = 0;
  constexpr uint64_t kCentury = uint64_t{100} * 366 * 86'400'000;
  if (ParseQuantity(text, kTimeUnits, milliseconds) && milliseconds <= kCentury) {
    return std::chrono::milliseconds(milliseconds);
  }
  return Error(
      ErrorCode::kInvalidArgument,
      "'" + std::string(text) + "' is not a time; allowed: a number with ms, s, min, h or d");
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> kNames{"B", "KB", "MB", "GB", "TB", "PB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 999.95 && unit + 1 < kNames.size(); ++unit) value /= 1000;
  return Printed(unit == 0 ? "%.0f %s" : "%.1f %s", value, kNames[unit]);
}

std::string ExactBytes(uint64_t bytes) {
  for (const std::string_view name : {"TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "KB"}) {
    for (const Unit& unit : kByteUnits) {
      if (unit.name == name && bytes >= unit.factor && bytes % unit.factor == 0) {
        return std::to_string(bytes / unit.factor) + std::string(name);
      }
    }
  }
  return std::to_string(bytes);
}

std::string FormatSeconds(double seconds) {
  if (seconds < 10) return Printed("%.1f %s", seconds, "s");
  if (seconds < 100) return Printed("%.0f %s", seconds, "s");
  const auto whole = static_cast<uint64_t>(seconds + 0.5);
  if (whole < 3600) {
    return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  }
  return std::to_string(whole / 3600) + " h " + std::to_string(whole / 60 % 60) + " min";
}

}  // namespace quadfs::daemon
