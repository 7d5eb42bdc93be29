#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "transport/base/result.h"

namespace quadfs::transport {

/// A request without its body.
struct RequestHead {
  std::string method;
  std::string path;                            ///< Percent-decoded, without query.
  std::map<std::string, std::string> query;    ///< Percent-decoded.
  std::map<std::string, std::string> headers;  ///< Names in lower case.
  uint64_t body_bytes = 0;
  bool keep_alive = true;
  bool expects_continue = false;  ///< Sends its body only after "100 Continue".
};

inline constexpr size_t kMaxHeadBytes = size_t{8} << 10;

/// Where the head ends in `bytes` (behind its empty line), nothing while it is incomplete.
/// Errors: kTooLarge above kMaxHeadBytes.
Result<std::optional<size_t>> FindHeadEnd(std::string_view bytes);

/// Parses exactly one head, as FindHeadEnd cut it. Errors: kInvalidArgument, kNotSupported (a body
/// of unannounced length, HTTP/1.0).
Result<RequestHead> ParseHead(std::string_view head);

/// Splits "/path?name=value&…" and decodes it. Errors: kInvalidArgument.
Result<void> ParseTarget(std::string_view target, RequestHead& out);

}  // namespace quadfs::transport
