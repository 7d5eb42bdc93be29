#include "metadata/wire.h"

namespace quadfs::metadata {

Result<Checksum> ChecksumFromHex(std::string_view hex) {
  Checksum checksum;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (hex.size() != checksum.bytes.size() * 2) {
    return Error(ErrorCode::kInvalidArgument, "a checksum has 32 hexadecimal digits");
  }
  for (size_t i = 0; i < checksum.bytes.size(); ++i) {
    const int high = digit(hex[2 * i]);
    const int low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) {
      return Error(ErrorCode::kInvalidArgument, "a checksum has 32 hexadecimal digits");
    }
    checksum.bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return checksum;
}

}  // namespace quadfs::metadata
