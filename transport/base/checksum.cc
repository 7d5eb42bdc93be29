#include "transport/base/checksum.h"

#include <xxhash.h>

#include <cstring>

namespace quadfs {
namespace {

Checksum Canonical(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Checksum checksum;
  static_assert(sizeof canonical.digest == sizeof checksum.bytes);
  std::memcpy(checksum.bytes.data(), canonical.digest, checksum.bytes.size());
  return checksum;
}

// Table of the reflected Castagnoli polynomial.
constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

uint32_t CrcSoftware(uint32_t crc, std::span<const std::byte> data) {
  for (const std::byte byte : data) {
    crc = kCrcTable[(crc ^ std::to_integer<uint32_t>(byte)) & 0xFFU] ^ (crc >> 8);
  }
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t CrcHardware(uint32_t crc,
                                                       std::span<const std::byte> data) {
  uint64_t wide = crc;
  while (data.size() >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, data.data(), 8);
    wide = __builtin_ia32_crc32di(wide, word);
    data = data.subspan(8);
  }
  auto narrow = static_cast<uint32_t>(wide);
  for (const std::byte byte : data) {
    narrow = __builtin_ia32_crc32qi(narrow, std::to_integer<unsigned char>(byte));
  }
  return narrow;
}
#endif

}  // namespace

std::string Checksum::ToHex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const uint8_t byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

Checksum ChecksumOf(std::span<const std::byte> data) {
  return Canonical(XXH3_128bits(data.data(), data.size()));
}

Checksum ChainChecksum(const Checksum& previous, std::span<const std::byte> data) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  XXH3_128bits_update(state, previous.bytes.data(), previous.bytes.size());
  XXH3_128bits_update(state, data.data(), data.size());
  const Checksum checksum = Canonical(XXH3_128bits_digest(state));
  XXH3_freeState(state);
  return checksum;
}

uint32_t Crc32c(std::span<const std::byte> data, uint32_t before) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~CrcHardware(~before, data);
#endif
  return ~CrcSoftware(~before, data);
}

}  // namespace quadfs
