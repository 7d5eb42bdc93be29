#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "fs/data/fetcher.h"
#include "fs/data/node_data.h"
#include "transport/base/mutex.h"

namespace quadfs::test {

/// Gives the blocks that the caches of other nodes hold, as the hub would; counts, and fails on
/// request. Threads: every method may be called concurrently.
class PeerSource final : public fs::BlockSource {
 public:
  void Add(cache::BlockCache* cache) {
    const MutexLock lock(mutex_);
    caches_.push_back(cache);
  }
  void Remove(cache::BlockCache* cache) {
    const MutexLock lock(mutex_);
    std::erase(caches_, cache);
  }
  void Cut(bool cut) { cut_ = cut; }
  uint64_t blocks() const { return blocks_; }

  Result<cache::Manifest> FetchManifest(const ObjectId& object, Deadline) override {
    const cache::ObjectRef found = QUADFS_TRY(Find(object));
    const auto manifest = found->manifest();
    if (manifest == nullptr) return Error(ErrorCode::kNotFound, "no manifest");
    return *manifest;
  }
  Result<void> FetchBlocks(const ObjectId& object, uint64_t first, uint64_t count, Deadline,
                           const fs::BlockSink& sink) override {
    const cache::ObjectRef found = QUADFS_TRY(Find(object));
    for (uint64_t i = first; i < first + count; ++i) {
      if (cut_) return Error(ErrorCode::kUnavailable, "cut");
      const auto block = QUADFS_TRY(found->ReadBlock(i));
      ++blocks_;
      QUADFS_TRY(sink(i, block));
    }
    return {};
  }
  Result<void> FetchBundle(const std::vector<ObjectId>& objects, Deadline,
                           const ObjectSink& sink) override {
    for (const ObjectId& object : objects) {
      auto found = Find(object);
      if (!found.ok()) {
        QUADFS_TRY(sink(object, std::move(found).error()));
      } else if ((*found)->size_bytes() == 0) {
        QUADFS_TRY(sink(object, std::vector<std::byte>()));
      } else {
        ++blocks_;
        QUADFS_TRY(sink(object, (*found)->ReadBlock(0)));
      }
    }
    return {};
  }

 private:
  Result<cache::ObjectRef> Find(const ObjectId& object) {
    if (cut_) return Error(ErrorCode::kUnavailable, "cut");
    const MutexLock lock(mutex_);
    for (cache::BlockCache* cache : caches_) {
      auto found = cache->Find(object);
      if (found.ok() && (*found)->complete()) return found;
      // Being changed, but blocks that are as they were are served, as a real node does.
      auto dirty = cache->FindDirty(object.inode);
      if (dirty.ok() && (*dirty)->id() == object) return dirty;
    }
    return Error(ErrorCode::kNotFound, "no node holds " + cache::ObjectName(object));
  }
  Mutex mutex_;
  std::vector<cache::BlockCache*> caches_ QUADFS_GUARDED_BY(mutex_);
  std::atomic<bool> cut_{false};
  std::atomic<uint64_t> blocks_{0};
};

/// A write-back queue that remembers what it was given and sends nothing.
class TwinWriteBack final : public fs::WriteBack {
 public:
  Result<void> Enqueue(const ObjectId& object, bool) override {
    const MutexLock lock(mutex_);
    if (std::find(queued_.begin(), queued_.end(), object) == queued_.end()) {
      queued_.push_back(object);
    }
    return {};
  }
  void Hurry(InodeId) override {}
  Result<void> WaitDrained(std::optional<InodeId>, Deadline) override { return {}; }
  std::vector<Entry> Entries(size_t) const override { return {}; }
  Status status() const override { return {}; }
  void SetLimit(uint64_t) override {}
  void SetPaused(bool) override {}
  void Stop() override {}
  std::vector<ObjectId> queued() const {
    const MutexLock lock(mutex_);
    return queued_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<ObjectId> queued_ QUADFS_GUARDED_BY(mutex_);
};

/// A node's data plane: the real Fetcher over peers' caches, a write-back that keeps still.
class TwinData final : public fs::NodeData {
 public:
  TwinData(cache::BlockCache& cache, PeerSource& source)
      : fetcher_(fs::Fetcher::Create({}, cache, source)) {}

  fs::Fetcher& fetcher() override { return *fetcher_; }
  TwinWriteBack& write_back() override { return write_back_; }
  void OnMessage(const metadata::Message&) override {}
  void OnChange(const metadata::Change&) override {}
  fs::SaveState StateOf(const metadata::Attributes&) const override {
    return fs::SaveState::kLocal;
  }
  Result<std::string> LocationsJson(const metadata::Attributes& attributes) const override {
    return "{\"generation\":" + std::to_string(attributes.generation.value) + "}";
  }
  Result<std::string> CampusesText(const metadata::Attributes&) const override {
    return std::string("main");
  }
  void Stop() override { fetcher_->Stop(); }

 private:
  std::unique_ptr<fs::Fetcher> fetcher_;
  TwinWriteBack write_back_;
};

}  // namespace quadfs::test
