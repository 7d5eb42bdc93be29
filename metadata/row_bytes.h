#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace quadfs::metadata {

/// Appends integers and strings to a row's bytes.
class RowEncoder {
 public:
  template <typename T>
  void Little(T number) {
    static_assert(std::is_unsigned_v<T>);
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<char>((static_cast<uint64_t>(number) >> (8 * i)) & 0xFF));
    }
  }
  void Big64(uint64_t number) {
    for (int shift = 56; shift >= 0; shift -= 8) {
      bytes_.push_back(static_cast<char>((number >> shift) & 0xFF));
    }
  }
  void Byte(uint8_t byte) { bytes_.push_back(static_cast<char>(byte)); }
  void Raw(std::string_view text) { bytes_.append(text); }
  /// Two bytes of length, then the text; at most 65,535 bytes of it.
  void Text(std::string_view text) {
    const std::string_view bounded = text.substr(0, 0xFFFF);
    Little(static_cast<uint16_t>(bounded.size()));
    Raw(bounded);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Takes integers and strings off a row's bytes. After a read beyond the end, ok() is false and
/// every further value is zero or empty.
class RowDecoder {
 public:
  explicit RowDecoder(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Little() {
    static_assert(std::is_unsigned_v<T>);
    const std::string_view part = Raw(sizeof(T));
    uint64_t number = 0;
    for (size_t i = 0; i < part.size(); ++i) {
      number |= uint64_t{static_cast<uint8_t>(part[i])} << (8 * i);
    }
    return static_cast<T>(number);
  }
  uint64_t Big64() {
    uint64_t number = 0;
    for (const char byte : Raw(8)) number = (number << 8) | static_cast<uint8_t>(byte);
    return number;
  }
  uint8_t Byte() { return Little<uint8_t>(); }
  std::string_view Raw(size_t count) {
    if (count > bytes_.size()) {
      ok_ = false;
      bytes_ = {};
      return {};
    }
    const std::string_view part = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return part;
  }
  std::string_view Text() { return Raw(Little<uint16_t>()); }
  std::string_view Rest() { return Raw(bytes_.size()); }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace quadfs::metadata
