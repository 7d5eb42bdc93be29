#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "transport/base/unique_fd.h"
#include "transport/identity.h"
#include "transport/openssl.h"

namespace quadfs::test {

/// Plain TCP to a loopback port; none if it is refused.
UniqueFd ConnectLoopback(uint16_t port);

/// A peer that can misbehave: raw bytes over TLS to a loopback port.
class RawTlsClient {
 public:
  /// `tls` may be null: no certificate. `max_version`: such as TLS1_2_VERSION, 0 for the newest.
  RawTlsClient(uint16_t port, const transport::TlsFiles* tls, int max_version = 0);
  bool handshaken() const { return handshaken_; }
  /// False if the connection is gone.
  bool Send(const std::string& text);
  /// False if nothing comes, not even the peer's end, within `wait`.
  bool AwaitReadable(std::chrono::milliseconds wait) const;
  /// What comes until `size` bytes are here, the peer closes, or 10 s pass.
  std::string Receive(size_t size);
  /// All until the peer closes; `closed` tells whether it did within 10 s.
  std::string ReceiveAll(bool& closed);

 private:
  transport::SslContextPtr context_;
  UniqueFd socket_;
  transport::SslPtr ssl_;
  bool handshaken_ = false;
};

/// Listens on a loopback port with any certificate and answers every connection with `answer`
/// after reading something.
class RawTlsServer {
 public:
  RawTlsServer(const transport::TlsFiles& tls, std::string answer);
  ~RawTlsServer();
  uint16_t port() const { return port_; }
  int requests() const { return requests_; }

 private:
  void Loop(const std::stop_token& stop);

  transport::SslContextPtr context_;
  const std::string answer_;
  UniqueFd listener_;
  uint16_t port_ = 0;
  std::atomic<int> requests_{0};
  std::jthread thread_;
};

}  // namespace quadfs::test
