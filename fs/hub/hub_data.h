#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cache/block_cache.h"
#include "cache/tree_store.h"
#include "fs/data/fetcher.h"
#include "fs/data/write_back.h"
#include "metadata/change.h"
#include "metadata/hub.h"
#include "metadata/local_store.h"
#include "transport/client.h"
#include "transport/server.h"

namespace quadfs::fs {

/// A hub's data plane, joined: it serves blocks to nodes (and main's hub to branch hubs), fetches
/// what it lacks once for all who ask, takes uploads into the campus's store, passes them on
/// to main's archive, and keeps the store's tree as the namespace says.
/// Threads: every method may be called concurrently.
class HubData {
 public:
  struct Options {
    CampusId campus;
    std::string campus_name;
    bool primary = false;
    uint64_t limit_bytes_per_second = 200'000'000;
  };
  struct Status {
    uint64_t mirror_waiting = 0;  ///< Inodes whose place in the store is behind the namespace.
    uint64_t corrupt_blocks =
        0;                ///< Found in store, cache or on the wire since start; never served.
    std::string problem;  ///< Last one of the store, empty if well.
  };
  /// `upstream`: main's hub; nullptr at main.
  static Result<std::unique_ptr<HubData>> Create(Options options, metadata::LocalStore& local,
                                                 cache::BlockCache& cache, cache::TreeStore& store,
                                                 metadata::Hub& hub, transport::Client* upstream);
  virtual ~HubData() = default;

  /// Puts /v1/data/, /v1/manifest/, /v1/bundle, /v1/incoming/ on the server. Before Start.
  virtual void AddRoutes(transport::Server& server) = 0;
  virtual Result<void> Start() = 0;
  virtual void Stop() = 0;

  virtual void OnChange(const metadata::Change& change) = 0;
  virtual void OnReset() = 0;
  virtual void OnMessage(const metadata::Message& message) = 0;

  virtual WriteBack* write_back() = 0;  ///< nullptr at main.
  virtual Fetcher& fetcher() = 0;
  virtual Status status() const = 0;
};

}  // namespace quadfs::fs
