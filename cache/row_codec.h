#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "transport/base/checksum.h"

namespace quadfs::cache {

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// Appends little-endian numbers and bytes to a row or file; Finish adds the CRC-32C of it all.
class RowWriter {
 public:
  void U8(uint8_t value) { bytes_ += static_cast<char>(value); }
  void U32(uint32_t value) { Number(value, 4); }
  void U64(uint64_t value) { Number(value, 8); }
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) U8(static_cast<uint8_t>(value | 0x80));
    U8(static_cast<uint8_t>(value));
  }
  void Raw(std::string_view bytes) { bytes_ += bytes; }
  void Sum(const Checksum& sum) {
    bytes_.append(reinterpret_cast<const char*>(sum.bytes.data()), sum.bytes.size());
  }
  const std::string& bytes() const { return bytes_; }
  std::string Finish() && {
    U32(Crc32c(AsBytes(bytes_)));
    return std::move(bytes_);
  }

 private:
  void Number(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) U8(static_cast<uint8_t>(value >> (8 * i)));
  }
  std::string bytes_;
};

/// Reads what RowWriter wrote. After the first short read every value is 0 and ok() is false.
class RowReader {
 public:
  explicit RowReader(std::string_view bytes) : bytes_(bytes) {}

  /// The reader of a finished row without its CRC; not ok() if the CRC is wrong.
  static RowReader Checked(std::string_view row) {
    RowReader reader(row);
    if (row.size() < 4) {
      reader.ok_ = false;
      return reader;
    }
    RowReader tail(row.substr(row.size() - 4));
    reader.bytes_.remove_suffix(4);
    reader.ok_ = tail.U32() == Crc32c(AsBytes(reader.bytes_));
    return reader;
  }

  uint8_t U8() { return static_cast<uint8_t>(Number(1)); }
  uint32_t U32() { return static_cast<uint32_t>(Number(4)); }
  uint64_t U64() { return Number(8); }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = U8();
      value |= uint64_t{byte & 0x7FU} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    ok_ = false;
    return 0;
  }
  std::string_view Raw(uint64_t length) {
    if (!ok_ || length > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view taken = bytes_.substr(0, length);
    bytes_.remove_prefix(length);
    return taken;
  }
  Checksum Sum() {
    Checksum sum;
    const std::string_view raw = Raw(sum.bytes.size());
    if (ok_) std::memcpy(sum.bytes.data(), raw.data(), raw.size());
    return sum;
  }
  bool ok() const { return ok_; }
  size_t left() const { return bytes_.size(); }

 private:
  uint64_t Number(size_t width) {
    const std::string_view raw = Raw(width);
    uint64_t value = 0;
    for (size_t i = raw.size(); i > 0; --i) {
      value = (value << 8) | static_cast<unsigned char>(raw[i - 1]);
    }
    return value;
  }
  std::string_view bytes_;
  bool ok_ = true;
};

/// Big-endian, so that byte order is scan order: for keys.
inline std::string KeyNumber(uint64_t value) {
  std::string key(8, '\0');
  for (size_t i = 0; i < 8; ++i) key[i] = static_cast<char>(value >> (56 - 8 * i));
  return key;
}
inline uint64_t KeyNumberAt(std::string_view key, size_t offset) {
  uint64_t value = 0;
  for (size_t i = offset; i < offset + 8 && i < key.size(); ++i) {
    value = (value << 8) | static_cast<unsigned char>(key[i]);
  }
  return value;
}

}  // namespace quadfs::cache
