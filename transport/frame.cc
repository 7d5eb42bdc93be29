#include "transport/frame.h"

#include "transport/base/checksum.h"

namespace quadfs::transport {
namespace {

void AppendBigEndian32(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>((value >> shift) & 0xFFU);
}

uint32_t ReadBigEndian32(std::string_view in) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = (value << 8) | static_cast<unsigned char>(in[static_cast<size_t>(i)]);
  return value;
}

}  // namespace

void AppendFrame(std::string& out, uint8_t type, std::string_view payload) {
  std::string checked;
  checked.reserve(payload.size() + 1);
  checked += static_cast<char>(type);
  checked += payload;
  AppendBigEndian32(out, static_cast<uint32_t>(payload.size()));
  out += checked[0];
  AppendBigEndian32(out, Crc32c(std::as_bytes(std::span(checked))));
  out += payload;
}

Result<void> FrameReader::Feed(std::span<const std::byte> data,
                               const std::function<Result<void>(const Frame&)>& on_frame) {
  for (const std::byte byte : data) buffer_ += static_cast<char>(byte);
  size_t at = 0;
  while (buffer_.size() - at >= kFrameHeaderBytes) {
    const std::string_view rest = std::string_view(buffer_).substr(at);
    const size_t payload_bytes = ReadBigEndian32(rest);
    if (payload_bytes > kMaxFramePayloadBytes) {
      return Error(ErrorCode::kTooLarge, "frame of " + std::to_string(payload_bytes) + " bytes");
    }
    if (rest.size() < kFrameHeaderBytes + payload_bytes) break;
    Frame frame{static_cast<uint8_t>(rest[4]),
                std::string(rest.substr(kFrameHeaderBytes, payload_bytes))};
    std::string checked(1, rest[4]);
    checked += frame.payload;
    if (Crc32c(std::as_bytes(std::span(checked))) != ReadBigEndian32(rest.substr(5))) {
      return Error(ErrorCode::kCorruption, "frame checksum does not match");
    }
    at += kFrameHeaderBytes + payload_bytes;
    if (auto handled = on_frame(frame); !handled.ok()) return handled;
  }
  buffer_.erase(0, at);
  return {};
}

}  // namespace quadfs::transport
