#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/base/clock.h"
#include "transport/base/result.h"
#include "transport/identity.h"

namespace quadfs::transport {

/// One request as a handler sees it. Valid during the handler's call only.
class Request {
 public:
  virtual ~Request() = default;
  virtual const std::string& method() const = 0;
  /// Path without query, percent-decoded, such as "/v1/data/00000001.00000002".
  virtual const std::string& path() const = 0;
  /// Query parameter, empty if absent.
  virtual std::string query(const std::string& name) const = 0;
  /// Header by lower-case name, empty if absent.
  virtual std::string header(const std::string& name) const = 0;
  /// The peer, from its verified certificate.
  virtual const PeerIdentity& peer() const = 0;
  /// By when the answer must be out: Quad-Deadline-Ms, which then ends reads and writes; else the
  /// server's default, which ends reads of the body only (a followed stream has no end).
  virtual Deadline deadline() const = 0;
  /// Length of the body that Content-Length announced, 0 if none.
  virtual uint64_t body_bytes() const = 0;
  /// Next piece of the body; 0 at its end. Errors: kUnavailable, kTimedOut.
  virtual Result<size_t> ReadBody(std::span<std::byte> buffer) = 0;
  /// The whole body. Errors: kTooLarge above `limit_bytes`.
  virtual Result<std::string> ReadAll(size_t limit_bytes = size_t{16} << 20) = 0;
};

/// The answer under way. Reply once, or Start, Write…, and return (the server finishes it).
class Response {
 public:
  using Headers = std::map<std::string, std::string>;

  virtual ~Response() = default;
  /// A whole answer.
  virtual Result<void> Reply(int status, std::string_view content_type, std::string_view body,
                             const Headers& headers = {}) = 0;
  /// An error: HTTP status by code, `Quad-Error: <number>`, the message as text body. After Start
  /// it cuts the connection instead, so that the peer never takes half an answer for a whole one.
  virtual Result<void> Fail(const Error& error) = 0;
  /// Begins a streamed answer: with `body_bytes` Content-Length, without it chunked.
  virtual Result<void> Start(int status, std::string_view content_type,
                             std::optional<uint64_t> body_bytes, const Headers& headers = {}) = 0;
  /// Sends more of it and flushes. Blocks while the peer is slow, at most `stall` long.
  /// Errors: kUnavailable, kTimedOut: the connection is dead, return from the handler.
  virtual Result<void> Write(std::span<const std::byte> data) = 0;
  /// True once the server stops or the peer closed; a long stream checks it between writes.
  virtual bool Ended() const = 0;
};

/// HTTP/1.1 over TLS 1.3 with client certificates; one port for everything.
/// A thread serves each connection (bounded by `max_connections`), so handlers may block.
/// Threads: Route before Start; Stop from any thread, once; it waits for the handlers.
class Server {
 public:
  struct Options {
    std::string address = "0.0.0.0:7440";       ///< host:port; port 0 takes a free one.
    uint32_t max_connections = 1024;            ///< Beyond it new ones are closed at once.
    std::chrono::milliseconds handshake{5000};  ///< TLS handshake and request header, each.
    std::chrono::milliseconds idle{120000};     ///< Kept-alive connection without a request.
    std::chrono::milliseconds stall{20000};     ///< One read or write without progress.
    std::chrono::milliseconds default_deadline{30000};
    /// Told of refused peers and failed handshakes: address, reason. May be empty.
    std::function<void(const std::string& address, const std::string& reason)> on_refused;
  };
  using Handler = std::function<void(Request&, Response&)>;

  /// Errors: kInvalidArgument (certificate, key, CA), kUnavailable (address in use).
  static Result<std::unique_ptr<Server>> Create(Options options, const TlsFiles& tls);
  virtual ~Server() = default;

  /// Serves `method` on `path`; a path ending in "/" serves all below it. Longest match wins.
  /// `roles`: which certificates may call it; all others get 403.
  virtual void Route(std::string method, std::string path, std::vector<Role> roles,
                     Handler handler) = 0;
  /// Begins to accept. Errors: kUnavailable.
  virtual Result<void> Start() = 0;
  virtual void Stop() = 0;
  /// Port listened on.
  virtual uint16_t port() const = 0;
};

}  // namespace quadfs::transport
