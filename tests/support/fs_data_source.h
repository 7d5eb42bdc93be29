#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fs/data/block_source.h"
#include "tests/support/fs_data_content.h"
#include "transport/base/mutex.h"

namespace quadfs::test {

/// A BlockSource in memory that counts, waits and damages on request.
/// Threads: every method may be called concurrently.
class MemSource final : public fs::BlockSource {
 public:
  void Add(const ObjectId& object, Content content) {
    MutexLock lock(mutex_);
    auto manifest = cache::Manifest::Of(content);
    contents_[object] = std::make_shared<const Held>(Held{std::move(content), std::move(manifest)});
  }
  /// While held, every fetch waits before it gives anything.
  void Hold() {
    MutexLock lock(mutex_);
    held_ = true;
  }
  /// While held, every block of more than one byte waits when half of it is given.
  void HoldHalfway() {
    MutexLock lock(mutex_);
    held_halfway_ = true;
  }
  void Release() {
    MutexLock lock(mutex_);
    held_ = held_halfway_ = false;
    changed_.NotifyAll();
  }
  /// Waits until `count` fetches are inside.
  void AwaitInside(size_t count) {
    MutexLock lock(mutex_);
    while (inside_ < count) changed_.Wait(mutex_);
  }
  /// The next `count` blocks are damaged.
  void DamageNext(int count) { damaged_ = count; }
  /// The next `count` requests fail.
  void FailNext(int count, ErrorCode code) {
    failing_ = count;
    code_ = code;
  }

  Result<cache::Manifest> FetchManifest(const ObjectId& object, Deadline) override {
    ++manifests;
    return QUADFS_TRY(Find(object))->manifest;
  }
  Result<void> FetchBlocks(const ObjectId& object, uint64_t first, uint64_t count,
                           Deadline deadline, const fs::BlockSink& sink) override {
    return Fetch(object, first, count, deadline, nullptr, sink);
  }
  Result<void> FetchWithManifest(const ObjectId& object, uint64_t first, uint64_t count,
                                 Deadline deadline, const ManifestSink& manifest_sink,
                                 const fs::BlockSink& sink) override {
    return Fetch(object, first, count, deadline, &manifest_sink, sink);
  }
  Result<void> FetchBundle(const std::vector<ObjectId>& objects, Deadline deadline,
                           const ObjectSink& sink) override {
    ++bundles;
    QUADFS_TRY(Enter(deadline));
    for (const ObjectId& object : objects) {
      auto held = Find(object);
      QUADFS_TRY(sink(object, held.ok() ? Result<Content>((*held)->content) : held.error()));
    }
    return {};
  }

  struct Request {
    ObjectId object;
    uint64_t first = 0, count = 0;
    bool manifest = false;
  };
  std::vector<Request> requests() const {
    MutexLock lock(mutex_);
    return requests_;
  }
  std::atomic<int> manifests{0}, bundles{0}, blocks{0};

 private:
  struct Held {
    Content content;
    cache::Manifest manifest;
  };
  Result<std::shared_ptr<const Held>> Find(const ObjectId& object) const {
    MutexLock lock(mutex_);
    const auto found = contents_.find(object);
    if (found == contents_.end()) return Error(ErrorCode::kNotFound, "source: no such object");
    return found->second;
  }
  Result<void> Enter(Deadline deadline) {
    MutexLock lock(mutex_);
    ++inside_;
    changed_.NotifyAll();
    while (held_) {
      if (!changed_.WaitUntil(mutex_, deadline.at()) && held_) {
        --inside_;
        return Error(ErrorCode::kTimedOut, "source: held");
      }
    }
    --inside_;
    return {};
  }
  Result<void> Fetch(const ObjectId& object, uint64_t first, uint64_t count, Deadline deadline,
                     const ManifestSink* manifest_sink, const fs::BlockSink& sink) {
    {
      MutexLock lock(mutex_);
      requests_.push_back({object, first, count, manifest_sink != nullptr});
    }
    QUADFS_TRY(Enter(deadline));
    if (failing_ > 0 && failing_-- > 0) return Error(code_, "source: made to fail");
    const auto held = QUADFS_TRY(Find(object));
    const Content& content = held->content;
    if (manifest_sink != nullptr) QUADFS_TRY((*manifest_sink)(held->manifest));
    for (uint64_t i = first; i < first + count; ++i) {
      Content block(BlockIn(content, i).begin(), BlockIn(content, i).end());
      if (damaged_ > 0 && damaged_-- > 0) block[block.size() / 2] ^= std::byte{1};
      ++blocks;
      QUADFS_TRY(Give(i, block, deadline, sink));
    }
    return {};
  }
  Result<void> Give(uint64_t index, std::span<const std::byte> block, Deadline deadline,
                    const fs::BlockSink& sink) {
    const auto arriving = std::make_shared<fs::ArrivingBlock>(block.size());
    arriving->Append(block.first(block.size() / 2));
    sink.Begins(index, arriving);
    auto given = PassHalfway(deadline);
    if (given.ok()) {
      arriving->Append(block.subspan(block.size() / 2));
      given = sink(index, block);
    }
    arriving->End(given.ok());
    return given;
  }
  Result<void> PassHalfway(Deadline deadline) {
    MutexLock lock(mutex_);
    while (held_halfway_) {
      if (!changed_.WaitUntil(mutex_, deadline.at()) && held_halfway_) {
        return Error(ErrorCode::kTimedOut, "source: held halfway");
      }
    }
    return {};
  }

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<ObjectId, std::shared_ptr<const Held>> contents_ QUADFS_GUARDED_BY(mutex_);
  std::vector<Request> requests_ QUADFS_GUARDED_BY(mutex_);
  size_t inside_ QUADFS_GUARDED_BY(mutex_) = 0;
  bool held_ QUADFS_GUARDED_BY(mutex_) = false;
  bool held_halfway_ QUADFS_GUARDED_BY(mutex_) = false;
  std::atomic<int> damaged_{0}, failing_{0};
  ErrorCode code_ = ErrorCode::kUnavailable;
};

}  // namespace quadfs::test
