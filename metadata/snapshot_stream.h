#pragma once

#include <memory>
#include <string>

#include "metadata/hub_core.h"
#include "metadata/row_store.h"
#include "transport/client.h"
#include "transport/server.h"

namespace quadfs::metadata {

/// GET /v1/snapshot: every row of the replicated state at one position, as frames.
void ServeSnapshot(HubCore& core, const std::string& cluster, transport::Response& response);

/// Where a received snapshot stands.
struct SnapshotPosition {
  uint64_t position = 0;
  Checksum chain;
  uint64_t global = 0;
};

/// Receives a snapshot into `store`, which must be fresh. Errors: kCorruption (cut short, damaged,
/// another cluster), and those of client and store.
Result<SnapshotPosition> ReceiveSnapshot(transport::Client& client, const std::string& cluster,
                                         RowStore& store, Deadline deadline);

}  // namespace quadfs::metadata
