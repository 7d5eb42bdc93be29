#pragma once

#include <string_view>

#include "transport/base/error.h"

namespace quadfs::transport {

/// The HTTP status an error travels with, for people and proxies; `Quad-Error` carries the code.
int StatusOf(ErrorCode code);
/// The nearest code for a status that came without a `Quad-Error`.
ErrorCode CodeOfStatus(int status);
/// "Not Found" and so on.
std::string_view ReasonOf(int status);

}  // namespace quadfs::transport
