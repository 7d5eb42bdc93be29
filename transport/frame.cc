#include "transport/frame.h"

#include <array>
#include <cstring>

#include "transport/base/checksum.h"

namespace quadfs::transport {
namespace {

void PutBigEndian32(char* out, uint32_t value) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<char>((value >> (24 - 8 * i)) & 0xFFU);
}

uint32_t GetBigEndian32(const char* in) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = (value << 8) | static_cast<unsigned char>(in[i]);
  return value;
}

/// Of type and payload, which lie apart in the frame.
uint32_t FrameCrc(char type, std::string_view payload) {
  const std::byte first{static_cast<unsigned char>(type)};
  return Crc32c(std::as_bytes(std::span(payload.data(), payload.size())),
                Crc32c(std::span(&first, 1)));
}

}  // namespace

void AppendFrame(std::string& out, uint8_t type, std::string_view payload) {
  std::array<char, kFrameHeaderBytes> header{};
  PutBigEndian32(header.data(), static_cast<uint32_t>(payload.size()));
  header[4] = static_cast<char>(type);
  PutBigEndian32(header.data() + 5, FrameCrc(header[4], payload));
  out.append(header.data(), header.size());
  out.append(payload);
}

Result<void> FrameReader::Feed(std::span<const std::byte> data,
                               const std::function<Result<void>(const Frame&)>& on_frame) {
  std::string_view rest(reinterpret_cast<const char*>(data.data()), data.size());
  if (!buffer_.empty()) {  // A frame is torn: go on behind its beginning.
    buffer_.append(rest);
    rest = buffer_;
  }
  while (rest.size() >= kFrameHeaderBytes) {
    const size_t payload_bytes = GetBigEndian32(rest.data());
    if (payload_bytes > kMaxFramePayloadBytes) {
      return Error(ErrorCode::kTooLarge, "frame of " + std::to_string(payload_bytes) + " bytes");
    }
    if (rest.size() < kFrameHeaderBytes + payload_bytes) break;
    const std::string_view payload = rest.substr(kFrameHeaderBytes, payload_bytes);
    if (FrameCrc(rest[4], payload) != GetBigEndian32(rest.data() + 5)) {
      return Error(ErrorCode::kCorruption, "frame checksum does not match");
    }
    const Frame frame{static_cast<uint8_t>(rest[4]), std::string(payload)};
    rest.remove_prefix(kFrameHeaderBytes + payload_bytes);
    if (auto handled = on_frame(frame); !handled.ok()) return handled;
  }
  if (buffer_.empty()) {
    buffer_.assign(rest);
  } else {
    buffer_.erase(0, buffer_.size() - rest.size());
  }
  return {};
}

}  // namespace quadfs::transport
