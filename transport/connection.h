#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "transport/base/unique_fd.h"
#include "transport/exchange.h"
#include "transport/route_table.h"
#include "transport/server.h"
#include "transport/tls_stream.h"

namespace quadfs::transport {

/// What all connections of one server share. Outlives them.
struct ServerShared {
  Server::Options options;
  PeerIdentity self;
  SslContextPtr context;
  RouteTable routes;
  std::atomic<bool> stopping{false};

  void Refused(const std::string& address, const std::string& reason) const {
    if (options.on_refused) options.on_refused(address, reason);
  }
};

/// One accepted connection and the thread that serves its requests one after another.
class Connection {
 public:
  Connection(UniqueFd socket, std::string address, const ServerShared& shared);

  /// Handshake, then requests until either side has enough. Runs in the connection's own thread.
  void Serve();

  /// From another thread: no further request is read, the answer under way may end.
  void StopReading() const;
  /// From another thread: every wait of the connection fails at once.
  void Cut() const;

 private:
  /// Reads until the head of the next request is complete. Errors: kUnavailable (closed),
  /// kTimedOut, kTooLarge.
  Result<size_t> AwaitHead(bool first);
  /// One request and its answer; false ends the connection.
  bool ServeOne(bool first);
  void Dispatch(HttpRequest& request, HttpResponse& response) const;
  void RefuseHead(int status, const Error& error);

  const UniqueFd socket_;
  const std::string address_;
  const ServerShared& shared_;
  TlsStream stream_;
  PeerIdentity peer_;
  std::string received_;  ///< Read but not yet used.
};

}  // namespace quadfs::transport
