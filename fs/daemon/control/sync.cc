// quadfs sync: publishes what is dirty below the paths (or on this node), and waits until every
// file is as safe as asked.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "fs/daemon/control/tree.h"

namespace quadfs::daemon {
namespace {

using Json = nlohmann::json;
constexpr std::chrono::milliseconds kLookAgain{30};
constexpr std::chrono::milliseconds kProgressInterval{250};
constexpr std::chrono::seconds kPublishStep{20};
constexpr const char* kArchivePolicy = "user.quad.policy.archive";

Result<fs::SaveState> ParseState(const std::string& word) {
  if (word.empty() || word == "campus") return fs::SaveState::kCampus;
  if (word == "local") return fs::SaveState::kLocal;
  if (word == "archived") return fs::SaveState::kArchived;
  if (word == "verified") return fs::SaveState::kVerified;
  return Error(ErrorCode::kInvalidArgument,
               "until '" + word + "'; allowed: local, campus, archived, verified");
}

/// Whether a file goes to main's archive: the nearest of it and the directories above that says
/// anything decides. Remembers directories.
class ArchivePolicy {
 public:
  explicit ArchivePolicy(const metadata::View& view) : view_(view) {}
  bool Off(const metadata::Attributes& file) {
    const std::string said = Said(file);
    return said.empty() ? OffAt(file.parent, 0) : said == "off";
  }

 private:
  std::string Said(const metadata::Attributes& row) const {
    if (!row.has_xattr) return {};
    const auto value = view_.GetXattr(row.inode, kArchivePolicy);
    return value.ok() ? *value : std::string();
  }
  bool OffAt(InodeId directory, int depth) {
    if (!directory || depth > kMaxDepth) return false;
    if (const auto known = known_.find(directory); known != known_.end()) return known->second;
    bool off = false;
    if (const auto row = view_.Get(directory); row.ok()) {
      const std::string said = Said(*row);
      off = !said.empty()             ? said == "off"
            : directory == kRootInode ? false
                                      : OffAt(row->parent, depth + 1);
    }
    known_[directory] = off;
    return off;
  }

  static constexpr int kMaxDepth = 4096;
  const metadata::View& view_;
  std::unordered_map<InodeId, bool> known_;
};

/// The files still to wait for.
class Waiting {
 public:
  Waiting(NodeRole& node, fs::SaveState wanted)
      : node_(node), view_(node.replica().view()), policy_(view_), wanted_(wanted) {}

  void Add(const metadata::Attributes& file) {
    if (!seen_.insert(file.inode).second) return;
    ++total_files_;
    total_bytes_ += file.size;
    left_.push_back(file.inode);
  }

  /// Publishes what is dirty among them. A file of another node is that node's to publish.
  Result<void> Publish(Deadline deadline, const std::function<bool()>& cancelled) {
    for (const InodeId inode : left_) {
      const auto mount = node_.mount();
      if (!mount) break;
      if (!mount->IsDirty(inode)) continue;
      if (cancelled()) return Error(ErrorCode::kCancelled, "cancelled");
      const auto step = std::min<std::chrono::milliseconds>(kPublishStep, deadline.Left());
      auto published = mount->Publish(inode, Deadline::After(step));
      if (!published.ok() && published.error().code() != ErrorCode::kNotFound) {
        return std::move(published).error().Within("publishing " + Name(inode));
      }
    }
    return {};
  }

  /// Drops those that are safe enough; true when none is left.
  bool Check() {
    left_.erase(
        std::remove_if(left_.begin(), left_.end(), [this](InodeId inode) { return Safe(inode); }),
        left_.end());
    return left_.empty();
  }

  Json Counts() const {
    return {{"done_files", total_files_ - left_.size()},
            {"total_files", total_files_},
            {"done_bytes", total_bytes_ - LeftBytes()},
            {"total_bytes", total_bytes_}};
  }
  std::string First() const { return left_.empty() ? "" : Name(left_.front()); }
  uint64_t left() const { return left_.size(); }

 private:
  bool Safe(InodeId inode) {
    const auto row = view_.Get(inode);
    if (!row.ok() || row->nlink == 0) return true;  // Removed meanwhile: nothing to keep safe.
    if (!row->generation) {
      const auto mount = node_.mount();
      return !(mount && mount->IsDirty(inode));  // Created, never written.
    }
    const fs::SaveState state = node_.data().StateOf(*row);
    if (state >= wanted_) return true;
    return wanted_ > fs::SaveState::kCampus && state >= fs::SaveState::kCampus && policy_.Off(*row);
  }
  uint64_t LeftBytes() const {
    uint64_t bytes = 0;
    for (size_t i = 0; i < std::min<size_t>(left_.size(), 10'000); ++i) {
      if (const auto row = view_.Get(left_[i]); row.ok()) bytes += row->size;
    }
    return std::min(bytes, total_bytes_);
  }
  std::string Name(InodeId inode) const {
    const auto path = view_.PathOf(inode);
    return path.ok() ? node_.mount_point() + "/" + *path : "inode " + std::to_string(inode.value);
  }

  NodeRole& node_;
  const metadata::View& view_;
  ArchivePolicy policy_;
  const fs::SaveState wanted_;
  std::unordered_set<InodeId> seen_;
  std::vector<InodeId> left_;
  uint64_t total_files_ = 0, total_bytes_ = 0;
};

/// Without paths: everything that only this node has.
Result<void> AddUnsaved(NodeRole& node, Waiting& waiting) {
  for (const cache::ObjectRef& object : QUADFS_TRY(node.cache().Unsaved())) {
    auto row = node.replica().view().Get(object->id().inode);
    if (row.ok()) {
      row->size = object->size_bytes();
      waiting.Add(*row);
    }
  }
  return {};
}

}  // namespace

Result<nlohmann::json> RunSync(Daemon& daemon, ControlCall& call) {
  const auto node = QUADFS_TRY(NeedNode(daemon));
  const fs::SaveState wanted = QUADFS_TRY(ParseState(call.Word("until")));
  const Deadline deadline = call.DeadlineOr(std::chrono::hours(24 * 7));
  Waiting waiting(*node, wanted);
  if (call.Paths().empty()) {
    if (!call.admin()) {
      return Error(ErrorCode::kPermission, "quadfs sync without a path is for root; give a path");
    }
    QUADFS_TRY(AddUnsaved(*node, waiting));
  } else {
    const auto targets = QUADFS_TRY(FindTargets(daemon, call));
    for (const auto& file : QUADFS_TRY(ListFiles(node->replica().view(), targets, call))) {
      waiting.Add(file);
    }
  }
  QUADFS_TRY(waiting.Publish(deadline, call.cancelled));
  auto last_progress = std::chrono::steady_clock::now();
  Mutex mutex;
  CondVar never;
  while (!waiting.Check()) {
    if (call.cancelled()) return Error(ErrorCode::kCancelled, "cancelled");
    if (deadline.Passed()) {
      const std::string problem = node->data().write_back().status().problem;
      return Error(ErrorCode::kTimedOut, std::to_string(waiting.left()) + " files are not yet " +
                                             fs::SaveStateName(wanted) + ", first " +
                                             waiting.First() +
                                             (problem.empty() ? "" : "; " + problem));
    }
    if (std::chrono::steady_clock::now() - last_progress >= kProgressInterval) {
      last_progress = std::chrono::steady_clock::now();
      call.progress(waiting.Counts());
    }
    const MutexLock lock(mutex);
    never.WaitFor(mutex, kLookAgain);
  }
  Json json = waiting.Counts();
  json["state"] = fs::SaveStateName(wanted);
  return json;
}

}  // namespace quadfs::daemon
