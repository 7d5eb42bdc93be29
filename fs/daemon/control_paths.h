#pragma once

#include <string>
#include <string_view>

#include "transport/base/result.h"

namespace quadfs::daemon {

/// Names are bytes, JSON strings are not: every byte outside printable ASCII, and '%', travels as
/// %XX on the control socket.
std::string EncodePath(std::string_view path);
/// Errors: kInvalidArgument.
Result<std::string> DecodePath(std::string_view text);

}  // namespace quadfs::daemon
