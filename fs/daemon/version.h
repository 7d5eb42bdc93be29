#pragma once

namespace quadfs::daemon {

#ifdef QUADFS_VERSION
inline constexpr const char* kVersion = QUADFS_VERSION;
#else
inline constexpr const char* kVersion = "0";
#endif

}  // namespace quadfs::daemon
