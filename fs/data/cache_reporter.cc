#include "fs/data/cache_reporter.h"

#include <algorithm>

namespace quadfs::fs {
namespace {

constexpr int kMaxDepth = 4096;
constexpr size_t kMaxParents = 200000;

}  // namespace

CacheReporter::CacheReporter(Options options, cache::BlockCache& cache, const metadata::View& view,
                             Send send, Connected connected)
    : options_(options),
      cache_(cache),
      view_(view),
      send_(std::move(send)),
      connected_(std::move(connected)) {
  if (options_.interval.count() == 0) return;  // A test calls Round itself.
  thread_ = std::jthread([this] {
    auto pause = options_.interval;
    for (;;) {
      {
        MutexLock lock(mutex_);
        const auto until = std::chrono::steady_clock::now() + pause;
        while (!stopping_ && wake_.WaitUntil(mutex_, until)) {
        }
        if (stopping_) return;
      }
      const auto begun = std::chrono::steady_clock::now();
      Round();
      // A large cache takes long to look through: never more than a twentieth of a core.
      pause = std::max(options_.interval, std::chrono::duration_cast<std::chrono::milliseconds>(
                                              20 * (std::chrono::steady_clock::now() - begun)));
    }
  });
}

void CacheReporter::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void CacheReporter::OnChange(const metadata::Change& change) {
  if (change.dentries.empty()) return;
  MutexLock lock(mutex_);
  names_moved_ = true;
}

uint64_t CacheReporter::DirectoryBytes(InodeId directory) const {
  MutexLock lock(mutex_);
  const auto found = known_.find(directory);
  return found != known_.end() && !found->second.generation ? found->second.bytes : 0;
}

InodeId CacheReporter::ParentOf(InodeId inode) {
  if (inode == kRootInode) return InodeId(0);
  if (const auto found = parents_.find(inode); found != parents_.end()) return found->second;
  const auto attributes = view_.Get(inode);
  const InodeId parent = attributes.ok() && attributes->nlink > 0 ? attributes->parent : InodeId(0);
  if (parents_.size() < kMaxParents) parents_[inode] = parent;
  return parent;
}

CachedRows CacheReporter::Look() {
  CachedRows rows;
  std::vector<std::pair<ObjectId, uint64_t>> files;
  cache_.ForEach([&](const ObjectId& object, uint64_t present, uint64_t) {
    if (present > 0) files.push_back({object, present});
    return files.size() < options_.max_files;
  });
  for (const auto& [object, bytes] : files) {
    CachedRow& row = rows[object.inode];
    if (row.generation < object.generation) row = {object.generation, bytes};
  }
  CachedRows directories;
  for (const auto& [inode, row] : rows) {
    InodeId at = ParentOf(inode);
    for (int depth = 0; at && depth < kMaxDepth; ++depth) {
      directories[at].bytes += row.bytes;
      at = ParentOf(at);
    }
  }
  for (const auto& [inode, row] : directories) {
    if (rows.size() >= kMaxCachedRows) break;
    rows.emplace(inode, row);
  }
  return rows;
}

void CacheReporter::Round() {
  bool moved = false;
  {
    MutexLock lock(mutex_);
    moved = std::exchange(names_moved_, false);
  }
  if (moved) parents_.clear();
  const auto status = cache_.status();
  const uint64_t fingerprint = status.used_bytes * 31 + status.objects * 7 +
                               status.evicted_objects * 3 + status.dirty_objects +
                               status.unsaved_objects;
  if (!connected_()) told_ = false;
  if (!moved && fingerprint == fingerprint_ && told_) return;
  CachedRows rows = Look();
  fingerprint_ = fingerprint;
  CacheReportMessage message{options_.campus, options_.node, !told_, {}};
  {
    MutexLock lock(mutex_);
    for (const auto& [inode, row] : rows) {
      const auto before = known_.find(inode);
      if (!told_ || before == known_.end() || before->second != row) {
        message.rows.push_back({inode, row});
      }
    }
    if (told_) {
      for (const auto& [inode, row] : known_) {
        if (!rows.contains(inode)) message.rows.push_back({inode, {row.generation, 0}});
      }
    }
    known_ = std::move(rows);
  }
  if (!connected_()) return;
  if (message.rows.empty() && !message.reset) return;
  told_ = send_(message.Encode()).ok();
}

}  // namespace quadfs::fs
