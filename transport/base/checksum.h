#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace quadfs {

/// XXH3-128 of some bytes, in its canonical (big-endian) form. All zero: none.
/// It detects damage, not an attacker: peers are authenticated by TLS.
struct Checksum {
  std::array<uint8_t, 16> bytes{};
  auto operator<=>(const Checksum&) const = default;
  explicit operator bool() const { return *this != Checksum{}; }
  /// 32 lower-case hexadecimal digits.
  std::string ToHex() const;
};

/// Checksum of `data`.
Checksum ChecksumOf(std::span<const std::byte> data);

/// Checksum of `previous` followed by `data`: one link of a log's chain.
Checksum ChainChecksum(const Checksum& previous, std::span<const std::byte> data);

/// CRC-32C (Castagnoli) of `data`, as in RFC 3720 B.4; frames and small records carry it.
/// `before`: the CRC of bytes that come before `data` and are part of the whole.
uint32_t Crc32c(std::span<const std::byte> data, uint32_t before = 0);

}  // namespace quadfs
