#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "transport/base/clock.h"
#include "transport/base/result.h"
#include "transport/openssl.h"

namespace quadfs::transport {

/// The listening side of one TLS connection over a non-blocking socket, with a deadline on every
/// wait. Threads: one; but shutdown(2) of the socket by another ends its waits at once.
/// Lifetime: the socket outlives the stream.
class TlsStream {
 public:
  using TimePoint = Clock::TimePoint;

  TlsStream(int socket, SSL_CTX* context);

  /// Errors: kUnauthenticated (the peer's certificate; says why), kUnavailable, kTimedOut.
  Result<void> Accept(TimePoint by);
  /// The peer's verified certificate, after Accept.
  X509Ptr PeerCertificate() const;

  /// At least one byte, as many as are there; 0 when the peer closed.
  /// Errors: kUnavailable, kTimedOut.
  Result<size_t> Read(std::span<std::byte> buffer, TimePoint by);
  /// All of `bytes`. Gives up at `by`, or when nothing moves for `stall`.
  /// Errors: kUnavailable, kTimedOut; the connection is dead.
  Result<void> Write(std::span<const std::byte> bytes, TimePoint by,
                     std::chrono::milliseconds stall);

  /// True once the peer closed its side or the connection broke. Does not wait.
  bool PeerClosed() const;
  /// Says goodbye and, so that the peer surely gets what was sent last, reads on into the void
  /// until it closes, at most until `by`.
  void Close(TimePoint by);

 private:
  Result<void> Wait(int ssl_error, TimePoint by, const char* doing) const;

  int socket_;
  SslPtr ssl_;
  bool broken_ = false;
};

}  // namespace quadfs::transport
