#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "transport/base/result.h"

namespace quadfs::transport {

/// Makes `path` with `mode` from its first moment, durably. Errors: kExists, kIo, ….
Result<void> CreateFileExclusively(const std::string& path, std::string_view content, mode_t mode);
/// The same beside `path`, then renamed over it.
Result<void> ReplaceFile(const std::string& path, std::string_view content, mode_t mode);
/// Errors: kNotFound, kTooLarge, kIo, …, with the file's name.
Result<std::string> ReadSmallFile(const std::string& path, size_t limit_bytes);
/// Makes the directory and those above it, the last one with mode 0700, unless it is there.
Result<void> MakePrivateDirectory(const std::string& path);
/// Errors: kInvalidArgument if anyone but the owner can reach the file.
Result<void> CheckPrivate(const std::string& path);

}  // namespace quadfs::transport
