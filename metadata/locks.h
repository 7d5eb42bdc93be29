#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "transport/base/ids.h"

namespace quadfs::metadata {

/// Advisory locks of one inode. Both kinds are kept apart, as Linux does.
enum class LockKind : uint8_t { kPosix = 1, kFlock = 2 };
enum class LockType : uint8_t { kShared = 1, kExclusive = 2, kUnlock = 3 };

/// A request of fcntl(2) or flock(2) (then the range is everything).
struct LockRequest {
  InodeId inode;
  LockKind kind = LockKind::kPosix;
  LockType type = LockType::kShared;
  uint64_t owner = 0;  ///< The kernel's lock owner on that node.
  uint64_t first_byte = 0;
  uint64_t last_byte = UINT64_MAX;    ///< Inclusive.
  uint32_t pid = 0;                   ///< For F_GETLK.
  std::chrono::milliseconds wait{0};  ///< How long the hub may hold the request; 0: try once.
};

/// The lock that stands in the way.
struct LockHolder {
  LockType type = LockType::kExclusive;
  uint64_t first_byte = 0;
  uint64_t last_byte = UINT64_MAX;
  uint32_t pid = 0;  ///< On its own node.
};

}  // namespace quadfs::metadata
