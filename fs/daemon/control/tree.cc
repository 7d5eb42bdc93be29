#include "fs/daemon/control/tree.h"

#include <unordered_set>

namespace quadfs::daemon {
namespace {

constexpr size_t kPageEntries = 1024;
constexpr size_t kMaxDepth = 2048;
constexpr uint32_t kReadAndSearch = 5;

const char* StandardMount() { return "/grid"; }

/// The part of `path` below the mount, or an error that names the mount.
Result<std::string> BelowMount(const std::string& path, const std::string& mount) {
  if (path == mount) return std::string();
  if (path.starts_with(mount + "/")) return path.substr(mount.size() + 1);
  return Error(ErrorCode::kInvalidArgument, path + " is not below " + mount);
}

}  // namespace

Result<std::shared_ptr<NodeRole>> NeedNode(const Daemon& daemon) {
  auto node = daemon.node();
  if (node) return node;
  if (daemon.config().node) {
    return Error(ErrorCode::kUnavailable,
                 "the node is still starting; quadfs status says what it waits for");
  }
  return Error(ErrorCode::kUnavailable, "this machine is a hub without a mount; ask on a node");
}

Result<std::vector<Target>> FindTargets(const Daemon& daemon, const ControlCall& call) {
  const auto node = daemon.node();
  const auto hub = daemon.hub();
  if (!node && !hub) return Error(ErrorCode::kUnavailable, "quadfsd is still starting");
  const metadata::View& view = node ? node->replica().view() : hub->hub().view();
  const std::string mount = node ? node->mount_point() : StandardMount();
  std::vector<Target> targets;
  for (const std::string& path : call.Paths()) {
    const std::string relative = QUADFS_TRY(BelowMount(path, mount));
    auto found = view.Resolve(relative, call.credentials);
    if (!found.ok() && found.error().code() == ErrorCode::kNotFound && node) {
      // Made elsewhere a moment ago: look again once the replica is as new as the hub.
      const auto fresh = node->replica().Barrier(false, Deadline::After(std::chrono::seconds(2)));
      if (fresh.ok()) found = view.Resolve(relative, call.credentials);
    }
    if (!found.ok()) return Error(found.error().code(), path + ": " + found.error().message());
    targets.push_back({path, std::move(*found)});
  }
  if (targets.empty()) return Error(ErrorCode::kInvalidArgument, "no path given");
  return targets;
}

Result<WalkResult> WalkFiles(const metadata::View& view, const metadata::Attributes& target,
                             const ControlCall& call,
                             const std::function<bool(const metadata::Attributes&)>& visit) {
  WalkResult result;
  const auto see = [&result, &visit](const metadata::Attributes& attributes) {
    ++result.files;
    return visit(attributes);
  };
  if (target.type == metadata::FileType::kRegular) return static_cast<void>(see(target)), result;
  struct Level {
    metadata::Attributes directory;
    std::string after;
  };
  std::vector<Level> levels;
  const auto enter = [&](const metadata::Attributes& directory) {
    if (directory.type != metadata::FileType::kDirectory) return;
    if (metadata::MayAccess(directory, call.credentials, kReadAndSearch) &&
        levels.size() < kMaxDepth) {
      levels.push_back({directory, ""});
    } else {
      ++result.skipped_directories;
    }
  };
  enter(target);
  while (!levels.empty()) {
    if (call.cancelled()) return Error(ErrorCode::kCancelled, "cancelled");
    const Level at = levels.back();
    auto page = view.List(at.directory.inode, at.after, kPageEntries, /*with_attributes=*/true);
    if (!page.ok()) {
      // Removed while we walk: then there is nothing there.
      if (page.error().code() != ErrorCode::kNotFound) return std::move(page).error();
      levels.pop_back();
      continue;
    }
    if (page->size() < kPageEntries) {
      levels.pop_back();
    } else {
      levels.back().after = page->back().name;
    }
    for (const metadata::DirectoryEntry& entry : *page) {
      if (!entry.attributes) continue;
      if (entry.type == metadata::FileType::kDirectory) {
        enter(*entry.attributes);
      } else if (entry.type == metadata::FileType::kRegular && !see(*entry.attributes)) {
        return result;
      }
    }
  }
  return result;
}

Result<std::vector<metadata::Attributes>> ListFiles(const metadata::View& view,
                                                    const std::vector<Target>& targets,
                                                    const ControlCall& call) {
  std::vector<metadata::Attributes> files;
  std::unordered_set<InodeId> seen;
  for (const Target& target : targets) {
    QUADFS_TRY(WalkFiles(view, target.attributes, call, [&](const metadata::Attributes& file) {
      if (seen.insert(file.inode).second) files.push_back(file);
      return files.size() <= kMaxListedFiles;
    }));
  }
  if (files.size() > kMaxListedFiles) {
    return Error(ErrorCode::kTooLarge, "more than " + std::to_string(kMaxListedFiles) +
                                           " files; give directories further down");
  }
  return files;
}

}  // namespace quadfs::daemon
