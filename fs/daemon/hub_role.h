#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "cache/block_cache.h"
#include "cache/tree_store.h"
#include "fs/daemon/config.h"
#include "fs/daemon/enrolment.h"
#include "fs/daemon/index_adapter.h"
#include "fs/hub/hub_data.h"
#include "metadata/hub.h"
#include "metadata/local_store.h"
#include "transport/client.h"
#include "transport/server.h"

namespace quadfs::daemon {

/// A campus's hub, joined from its parts: local rows, cache, store, metadata, data plane, server.
/// Threads: every method may be called concurrently, Stop once.
class HubRole {
 public:
  /// Starts everything; it serves when this returns. A branch hub does not wait for main.
  /// Errors: those of the parts, with what the admin can do.
  static Result<std::unique_ptr<HubRole>> Start(const Config& config);
  ~HubRole();

  bool primary() const { return upstream_ == nullptr; }
  metadata::Hub& hub() { return *hub_; }
  fs::HubData& data() { return *data_; }
  cache::BlockCache& cache() { return *cache_; }
  Enrolment& enrolment() { return *enrolment_; }
  /// Where it listens, with the port it got.
  std::string address() const;

  void SetLimit(uint64_t bytes_per_second);
  /// Forgets which addresses of main failed.
  void ResetConnections();
  /// Ends requests and streams, then the parts, in order. Idempotent.
  void Stop();

 private:
  class Listener;
  HubRole();
  Result<void> Open(const Config& config);
  Result<void> Serve(const Config& config);
  Result<void> EnterMainCampus(const Config& config);

  std::unique_ptr<Listener> listener_;
  std::unique_ptr<metadata::LocalStore> local_;
  std::unique_ptr<IndexAdapter> cache_index_, store_index_;
  std::unique_ptr<cache::BlockCache> cache_;
  std::unique_ptr<cache::TreeStore> store_;
  std::unique_ptr<transport::Client> upstream_;
  std::unique_ptr<metadata::Hub> hub_;
  std::unique_ptr<fs::HubData> data_;
  std::unique_ptr<Enrolment> enrolment_;
  std::unique_ptr<transport::Server> server_;
  std::string listen_;
  std::atomic<bool> stopped_{false};
};

}  // namespace quadfs::daemon
