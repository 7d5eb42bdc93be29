#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "transport/base/result.h"

namespace quadfs::transport {

/// A frame of a standing stream: length 4 (of payload), type 1, CRC-32C 4 (of type and payload),
/// payload. Big-endian.
struct Frame {
  uint8_t type = 0;
  std::string payload;
};

inline constexpr size_t kFrameHeaderBytes = 9;
inline constexpr size_t kMaxFramePayloadBytes = size_t{16} << 20;

/// Appends the frame to `out`.
void AppendFrame(std::string& out, uint8_t type, std::string_view payload);

/// Cuts a byte stream into frames. Threads: one.
class FrameReader {
 public:
  /// Takes the next bytes and calls `on_frame` for each whole frame, in order.
  /// Errors: kCorruption (checksum), kTooLarge, and what `on_frame` returns; the stream is over.
  Result<void> Feed(std::span<const std::byte> data,
                    const std::function<Result<void>(const Frame&)>& on_frame);

 private:
  std::string buffer_;
};

}  // namespace quadfs::transport
