#include "fs/node/mount_core.h"

#include "fs/node/invalidator.h"
#include "fs/node/publisher.h"

namespace quadfs::fs {
namespace {

/// A journal repeats an operation whose answer was lost for as long as the hub is away.
constexpr std::chrono::minutes kUncertainty{10};

int64_t SteadyNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

MountCore::MountCore(NodeMount::Options given, metadata::LocalStore& local_store,
                     cache::BlockCache& blocks, metadata::NodeReplica& names, NodeData& bytes)
    : options(std::move(given)),
      local(local_store),
      cache(blocks),
      replica(names),
      data(bytes),
      store(options.store_path, local_store),
      invalidator(std::make_unique<Invalidator>(*this)),
      publisher(std::make_unique<Publisher>(*this)) {}

MountCore::~MountCore() = default;

void MountCore::NoteUncertain() {
  uncertain_until_ns_.store(SteadyNs() + std::chrono::nanoseconds(kUncertainty).count());
}

bool MountCore::OwnChangesUncertain() const { return SteadyNs() < uncertain_until_ns_.load(); }

std::string MountCore::CacheDirectory() const {
  const MutexLock lock(mutex_);
  return cache_directory_;
}

void MountCore::NoteCachePath(const std::string& object_path) {
  const MutexLock lock(mutex_);
  if (cache_directory_.empty()) cache_directory_ = object_path.substr(0, object_path.rfind('/'));
}

void MountCore::SetProblem(std::string problem) {
  const MutexLock lock(mutex_);
  problem_ = std::move(problem);
}

std::string MountCore::problem() const {
  const MutexLock lock(mutex_);
  return problem_;
}

}  // namespace quadfs::fs
