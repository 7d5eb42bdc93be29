#include "fs/data/prefetch.h"

#include "fs/data/proto/data.pb.h"

namespace quadfs::fs {

std::string PrefetchMessage::Encode() const {
  data::Prefetch prefetch;
  prefetch.set_campus(campus.value);
  prefetch.set_node(node.value);
  for (const InodeId inode : inodes) prefetch.add_inodes(inode.value);
  return prefetch.SerializeAsString();
}

Result<PrefetchMessage> PrefetchMessage::Decode(const std::string& bytes) {
  data::Prefetch prefetch;
  if (!prefetch.ParseFromString(bytes) ||
      static_cast<size_t>(prefetch.inodes_size()) > kMaxInodes) {
    return Error(ErrorCode::kCorruption, "a prefetch message cannot be read");
  }
  PrefetchMessage message{CampusId(prefetch.campus()), NodeId(prefetch.node()), {}};
  for (const uint64_t inode : prefetch.inodes()) message.inodes.emplace_back(inode);
  return message;
}

Prefetcher::Prefetcher(cache::BlockCache& cache, const metadata::View& view, Fetcher& fetcher)
    : cache_(cache), view_(view), fetcher_(fetcher) {
  thread_ = std::jthread([this] {
    for (;;) {
      std::vector<InodeId> batch;
      {
        MutexLock lock(mutex_);
        while (!stopping_ && queue_.empty()) work_.Wait(mutex_);
        if (stopping_) return;
        const size_t count = std::min(kBatch, queue_.size());
        batch.assign(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(count));
        queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(count));
      }
      Bring(batch);
    }
  });
}

void Prefetcher::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    work_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Prefetcher::OnMessage(const metadata::Message& message) {
  const auto wanted = PrefetchMessage::Decode(message.payload);
  if (!wanted.ok()) return;
  MutexLock lock(mutex_);
  for (const InodeId inode : wanted->inodes) {
    if (queue_.size() >= kMaxQueued) break;
    queue_.push_back(inode);
  }
  work_.NotifyOne();
}

void Prefetcher::Bring(const std::vector<InodeId>& inodes) {
  std::vector<cache::ObjectRef> small;
  for (const InodeId inode : inodes) {
    const auto attributes = view_.Get(inode);
    if (!attributes.ok() || attributes->type != metadata::FileType::kRegular ||
        !attributes->generation) {
      continue;
    }
    auto object =
        cache_.FindOrCreate({inode, attributes->generation}, attributes->size, attributes->root);
    if (!object.ok()) continue;
    if (attributes->size <= kBlockBytes) {
      small.push_back(std::move(*object));
    } else {
      // One large file after the other: what does not arrive is fetched when it is read.
      (void)fetcher_.Complete(*object, Fetcher::Priority::kPrefetch,
                              Deadline::After(std::chrono::minutes(10)));
    }
  }
  (void)fetcher_.CompleteBundle(small, Fetcher::Priority::kPrefetch,
                                Deadline::After(std::chrono::minutes(2)));
}

}  // namespace quadfs::fs
