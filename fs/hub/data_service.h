#pragma once

#include "fs/hub/ingest.h"
#include "fs/hub/object_reader.h"
#include "fs/hub/want_broker.h"
#include "transport/server.h"

namespace quadfs::fs {

/// A hub's routes for bytes:
///   GET  /v1/data/<object>?first=&count=[&manifest=1]   blocks, with the manifest before them
///   PUT  /v1/data/<object>?first=&count=&want=<id>      the answer to a want
///   PUT  /v1/data/<object>?first=&count=[&manifest=1&commit=1]   an upload's blocks
///   GET  /v1/manifest/<object>     POST /v1/bundle      POST /v1/want/<id>
///   POST /v1/incoming/<object>     POST /v1/commit/<object>
/// For nodes of the own campus, and at main for the campuses' hubs.
/// Threads: as Server's. Lifetime: its parts outlive the server.
class DataService {
 public:
  DataService(CampusId campus, bool primary, ObjectReader& reader, WantBroker& broker,
              Ingest& ingest)
      : campus_(campus), primary_(primary), reader_(reader), broker_(broker), ingest_(ingest) {}

  void AddRoutes(transport::Server& server);

 private:
  using Request = transport::Request;
  using Response = transport::Response;
  using Served = Result<void> (DataService::*)(Request&, Response&);
  void Route(transport::Server& server, const char* method, const char* path, Served serve);
  Result<void> CheckPeer(const transport::PeerIdentity& peer) const;

  Result<void> GetBlocks(Request& request, Response& response);
  Result<void> GetManifest(Request& request, Response& response);
  Result<void> PostBundle(Request& request, Response& response);
  Result<void> PutBlocks(Request& request, Response& response);
  Result<void> PostWant(Request& request, Response& response);
  Result<void> PostIncoming(Request& request, Response& response);
  Result<void> PostCommit(Request& request, Response& response);

  const CampusId campus_;
  const bool primary_;
  ObjectReader& reader_;
  WantBroker& broker_;
  Ingest& ingest_;
};

}  // namespace quadfs::fs
