// quadfs evict: gives this node's cache space of a path back. What is unsaved or in use stays.
#include "fs/daemon/control/tree.h"

namespace quadfs::daemon {

Result<nlohmann::json> RunEvict(Daemon& daemon, ControlCall& call) {
  const auto node = QUADFS_TRY(NeedNode(daemon));
  const auto targets = QUADFS_TRY(FindTargets(daemon, call));
  const auto files = QUADFS_TRY(ListFiles(node->replica().view(), targets, call));
  uint64_t evicted = 0, bytes = 0, kept = 0;
  std::string reason;
  for (const metadata::Attributes& file : files) {
    if (call.cancelled()) return Error(ErrorCode::kCancelled, "cancelled");
    const ObjectId object{file.inode, file.generation};
    uint64_t present = 0;
    {
      const auto found = node->cache().Find(object);
      if (!found.ok()) {
        if (node->cache().FindDirty(file.inode).ok()) {
          ++kept;
          reason = "being written";
        }
        continue;
      }
      present = (*found)->present_bytes();
    }
    const auto done = node->cache().Evict(object);
    if (done.ok()) {
      ++evicted;
      bytes += present;
    } else if (done.error().code() != ErrorCode::kNotFound) {
      ++kept;
      reason = done.error().message();
    }
  }
  return nlohmann::json{{"files", files.size()},
                        {"evicted_files", evicted},
                        {"evicted_bytes", bytes},
                        {"kept_files", kept},
                        {"kept_because", reason}};
}

}  // namespace quadfs::daemon
