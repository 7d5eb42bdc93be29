#pragma once

#include <cstdint>

namespace quadfs::fs {

/// Kinds of metadata::Message used between data planes. Payloads: fs/data/proto/data.proto. Frozen.
enum MessageKind : uint32_t {
  kMessageWant = 1,         ///< Listener → client: send me these blocks by PUT.
  kMessageCacheReport = 2,  ///< Client → listener → everyone: what a node's cache holds, per inode.
  kMessagePrefetch = 3,  ///< Towards a named node or campus: bring these inodes.
};

}  // namespace quadfs::fs
