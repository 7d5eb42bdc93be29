#pragma once

#include <memory>
#include <string>

#include "cache/block_cache.h"
#include "fs/data/fetcher.h"
#include "fs/data/write_back.h"
#include "metadata/change.h"
#include "metadata/local_store.h"
#include "metadata/node_replica.h"
#include "transport/client.h"

namespace quadfs::fs {

/// A node's data plane, joined: BlockSource over its hub, Fetcher, WriteBack to the hub, answers to
/// the hub's wants, cache reports. The FUSE side uses it; the daemon owns it.
/// Threads: every method may be called concurrently.
class NodeData {
 public:
  struct Options {
    CampusId campus;
    NodeId node;
    std::string node_name;
    uint64_t limit_bytes_per_second = 200'000'000;
  };
  static Result<std::unique_ptr<NodeData>> Create(Options options, metadata::LocalStore& local,
                                                  cache::BlockCache& cache,
                                                  metadata::NodeReplica& replica,
                                                  transport::Client& hub);
  virtual ~NodeData() = default;

  virtual Fetcher& fetcher() = 0;
  virtual WriteBack& write_back() = 0;
  /// Messages from the replica's listener are handed on to here.
  virtual void OnMessage(const metadata::Message& message) = 0;
  virtual void OnChange(const metadata::Change& change) = 0;

  /// user.quad.state of a clean inode, from its locations.
  virtual SaveState StateOf(const metadata::Attributes& attributes) const = 0;
  /// user.quad.locations as JSON:
  /// {"generation":…,"bytes":…,"campuses":{"a":{"bytes":…,"fraction":…,
  /// "complete":true}},"nodes":{"b1":{"bytes":…,"fraction":…}}}; of a directory: its whole subtree.
  virtual Result<std::string> LocationsJson(const metadata::Attributes& attributes) const = 0;
  /// user.quad.campuses: names of campuses with a complete copy of the current version (directory:
  /// of everything below), best first (own campus, then by bytes), comma-separated.
  virtual Result<std::string> CampusesText(const metadata::Attributes& attributes) const = 0;
  virtual void Stop() = 0;
};

}  // namespace quadfs::fs
