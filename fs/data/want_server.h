#pragma once

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "fs/data/block_source.h"
#include "metadata/change.h"
#include "transport/base/mutex.h"
#include "transport/client.h"

namespace quadfs::fs {

/// What a want is answered from: a node's cache, or a branch hub's store and nodes.
/// Threads: every method may be called concurrently. Errors: kNotFound, kStale, kCorruption, …
class WantReader {
 public:
  virtual ~WantReader() = default;
  virtual Result<cache::Manifest> WantedManifest(const ObjectId& object, Deadline deadline) = 0;
  virtual Result<std::vector<std::byte>> WantedBlock(const ObjectId& object, uint64_t index,
                                                     Deadline deadline) = 0;
};

/// Answers the hub's wants: reads the blocks and PUTs them, or says why not. A few threads; wants
/// beyond the queue are refused at once, so that the hub asks elsewhere.
/// Threads: every method may be called concurrently. Lifetime: client and reader outlive it.
class WantServer {
 public:
  /// As many as a hub's fetchers may want at once, so that none waits behind another.
  static constexpr size_t kThreads = 12;
  WantServer(transport::Client& hub, WantReader& reader, size_t threads = kThreads);
  ~WantServer() { Stop(); }

  /// A kMessageWant from the hub.
  void OnWant(const metadata::Message& message);
  void Stop();

 private:
  static constexpr size_t kMaxQueued = 1024;
  struct Job {
    uint64_t id = 0;
    ObjectId object;
    uint64_t first = 0, count = 0;
    bool manifest = false;
    Deadline deadline;
  };
  void Work(const std::stop_token& stop);
  Result<void> Serve(const Job& job);
  void Refuse(uint64_t id, const Error& error, Deadline deadline);

  transport::Client& hub_;
  WantReader& reader_;
  Mutex mutex_;
  CondVar work_;
  std::deque<Job> jobs_ QUADFS_GUARDED_BY(mutex_);
  std::deque<uint64_t> refused_ QUADFS_GUARDED_BY(mutex_);
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace quadfs::fs
