// quadfs prefetch: brings a path's files into this node's cache. Files of up to a block travel many
// in a request; larger ones one after another, each over all the fetcher's connections.
#include <algorithm>
#include <atomic>
#include <thread>

#include "fs/daemon/control/tree.h"
#include "transport/base/mutex.h"

namespace quadfs::daemon {
namespace {

using Json = nlohmann::json;
constexpr int kWorkers = 4;
constexpr size_t kBundleFiles = 128;
constexpr uint64_t kBundleBytes = uint64_t{32} << 20;
constexpr std::chrono::milliseconds kProgressInterval{250};
constexpr std::chrono::seconds kFileStep{30};

/// A share of the work: one large file, or a bundle of small ones.
struct Portion {
  std::vector<metadata::Attributes> files;
  uint64_t bytes = 0;
};

std::vector<Portion> Divide(const std::vector<metadata::Attributes>& files) {
  std::vector<Portion> portions;
  Portion bundle;
  for (const metadata::Attributes& file : files) {
    if (!file.generation || file.size == 0) continue;
    if (file.size > kBlockBytes) {
      portions.push_back({{file}, file.size});
      continue;
    }
    bundle.files.push_back(file);
    bundle.bytes += file.size;
    if (bundle.files.size() >= kBundleFiles || bundle.bytes >= kBundleBytes) {
      portions.push_back(std::exchange(bundle, {}));
    }
  }
  if (!bundle.files.empty()) portions.push_back(std::move(bundle));
  return portions;
}

/// Works through the portions on a few threads; counts as it goes.
class Prefetch {
 public:
  Prefetch(NodeRole& node, std::vector<Portion> portions, Deadline deadline)
      : node_(node), portions_(std::move(portions)), deadline_(deadline) {
    for (const Portion& portion : portions_) {
      total_bytes_ += portion.bytes;
      total_files_ += portion.files.size();
    }
    for (int i = 0; i < kWorkers; ++i) workers_.emplace_back([this] { Work(); });
  }
  ~Prefetch() {
    stop_ = true;
    workers_.clear();
  }

  /// True once every worker has ended; waits at most `duration`.
  bool WaitFor(std::chrono::milliseconds duration) {
    MutexLock lock(mutex_);
    if (ended_ < kWorkers) changed_.WaitFor(mutex_, duration);
    return ended_ == kWorkers;
  }
  Json Counts() const {
    uint64_t bytes = done_bytes_;
    MutexLock lock(mutex_);
    for (const cache::ObjectRef& object : running_) {
      bytes += std::min(object->present_bytes(), object->size_bytes());
    }
    return {{"done_bytes", bytes},
            {"total_bytes", total_bytes_},
            {"done_files", done_files_.load()},
            {"total_files", total_files_},
            {"failed_files", failed_files_.load()}};
  }
  std::string problem() const {
    MutexLock lock(mutex_);
    return problem_;
  }
  uint64_t failed_files() const { return failed_files_; }
  bool complete() const { return done_files_ + failed_files_ >= total_files_; }

 private:
  void Work() {
    while (!stop_ && !deadline_.Passed()) {
      const size_t index = next_++;
      if (index >= portions_.size()) break;
      const Portion& portion = portions_[index];
      if (portion.files.size() == 1 && portion.bytes > kBlockBytes) {
        FetchLarge(portion.files[0]);
      } else {
        FetchBundle(portion);
      }
    }
    MutexLock lock(mutex_);
    ++ended_;
    changed_.NotifyAll();
  }

  Result<cache::ObjectRef> Open(const metadata::Attributes& file) {
    return node_.cache().FindOrCreate({file.inode, file.generation}, file.size, file.root);
  }

  void FetchLarge(const metadata::Attributes& file) {
    auto object = Open(file);
    if (!object.ok()) return Fail(object.error());
    {
      MutexLock lock(mutex_);
      running_.push_back(*object);
    }
    Result<void> fetched;
    uint64_t before = 0;
    do {  // In steps, so that a stop is noticed and a large file may take its time.
      before = (*object)->present_bytes();
      const auto step =
          Deadline::After(std::min<std::chrono::milliseconds>(kFileStep, deadline_.Left()));
      fetched = node_.data().fetcher().Complete(*object, fs::Fetcher::Priority::kPrefetch, step);
    } while (!fetched.ok() && fetched.error().code() == ErrorCode::kTimedOut && !stop_ &&
             !deadline_.Passed() && (*object)->present_bytes() > before);
    MutexLock lock(mutex_);
    running_.erase(std::find(running_.begin(), running_.end(), *object));
    if (fetched.ok()) {
      done_bytes_ += file.size;
      ++done_files_;
    } else if (!stop_) {
      ++failed_files_;
      problem_ = fetched.error().message();
    }
  }

  void FetchBundle(const Portion& portion) {
    std::vector<cache::ObjectRef> missing;
    std::vector<cache::ObjectRef> all;
    for (const metadata::Attributes& file : portion.files) {
      auto object = Open(file);
      if (!object.ok()) {
        Fail(object.error());
        continue;
      }
      if (!(*object)->complete()) missing.push_back(*object);
      all.push_back(std::move(*object));
    }
    Result<void> fetched;
    if (!missing.empty()) {
      const auto step =
          Deadline::After(std::min<std::chrono::milliseconds>(kFileStep, deadline_.Left()));
      fetched =
          node_.data().fetcher().CompleteBundle(missing, fs::Fetcher::Priority::kPrefetch, step);
    }
    for (const cache::ObjectRef& object : all) {
      if (object->complete()) {
        done_bytes_ += object->size_bytes();
        ++done_files_;
      } else {
        Fail(fetched.ok() ? Error(ErrorCode::kNotFound, "no place has it") : fetched.error());
      }
    }
  }

  void Fail(const Error& error) {
    ++failed_files_;
    MutexLock lock(mutex_);
    problem_ = error.message();
  }

  NodeRole& node_;
  const std::vector<Portion> portions_;
  const Deadline deadline_;
  uint64_t total_bytes_ = 0, total_files_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<size_t> next_{0};
  std::atomic<uint64_t> done_bytes_{0}, done_files_{0}, failed_files_{0};
  mutable Mutex mutex_;
  CondVar changed_;
  int ended_ QUADFS_GUARDED_BY(mutex_) = 0;
  std::vector<cache::ObjectRef> running_ QUADFS_GUARDED_BY(mutex_);
  std::string problem_ QUADFS_GUARDED_BY(mutex_);
  std::vector<std::jthread> workers_;
};

Result<Json> QueueAll(NodeRole& node, const std::vector<metadata::Attributes>& files) {
  uint64_t queued = 0, bytes = 0;
  for (const metadata::Attributes& file : files) {
    if (!file.generation || file.size == 0) continue;
    auto object = node.cache().FindOrCreate({file.inode, file.generation}, file.size, file.root);
    if (!object.ok() || (*object)->complete()) continue;
    QUADFS_TRY(node.data().fetcher().CompleteLater(*object, fs::Fetcher::Priority::kPrefetch));
    ++queued;
    bytes += file.size - std::min(file.size, (*object)->present_bytes());
  }
  return Json{{"queued_files", queued}, {"queued_bytes", bytes}, {"files", files.size()}};
}

}  // namespace

Result<nlohmann::json> RunPrefetch(Daemon& daemon, ControlCall& call) {
  const auto node = QUADFS_TRY(NeedNode(daemon));
  const auto targets = QUADFS_TRY(FindTargets(daemon, call));
  const auto files = QUADFS_TRY(ListFiles(node->replica().view(), targets, call));
  if (call.Flag("background")) return QueueAll(*node, files);
  Prefetch work(*node, Divide(files), call.DeadlineOr(std::chrono::hours(24 * 7)));
  while (!work.WaitFor(kProgressInterval)) {
    if (call.cancelled()) return Error(ErrorCode::kCancelled, "cancelled");
    call.progress(work.Counts());
  }
  Json json = work.Counts();
  json["files"] = files.size();
  if (!work.problem().empty()) json["problem"] = work.problem();
  if (work.failed_files() > 0) {
    return Error(ErrorCode::kUnavailable,
                 std::to_string(work.failed_files()) +
                     " files could not be brought here: " + work.problem());
  }
  if (!work.complete()) return Error(ErrorCode::kTimedOut, "not everything is here yet");
  return json;
}

}  // namespace quadfs::daemon
