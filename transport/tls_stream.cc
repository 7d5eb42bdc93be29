#include "transport/tls_stream.h"

#include <openssl/x509_vfy.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace quadfs::transport {
namespace {

/// poll with a deadline: false when it came first.
bool PollUntil(int socket, short events, Clock::TimePoint by) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(by - std::chrono::steady_clock::now());
    pollfd waiting{socket, events, 0};
    const int wait = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 3'600'000));
    const int ready = ::poll(&waiting, 1, wait);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // The next operation on the socket reports it.
    if (std::chrono::steady_clock::now() >= by) return false;
  }
}

}  // namespace

TlsStream::TlsStream(int socket, SSL_CTX* context) : socket_(socket), ssl_(SSL_new(context)) {
  if (ssl_ != nullptr) SSL_set_fd(ssl_.get(), socket);
}

Result<void> TlsStream::Wait(int ssl_error, TimePoint by, const char* doing) const {
  const short events = ssl_error == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
  if (PollUntil(socket_, events, by)) return {};
  return Error(ErrorCode::kTimedOut, std::string("peer too slow: ") + doing);
}

Result<void> TlsStream::Accept(TimePoint by) {
  if (ssl_ == nullptr) return Error(ErrorCode::kUnavailable, "no memory for a TLS connection");
  for (;;) {
    ERR_clear_error();
    const int done = SSL_accept(ssl_.get());
    if (done == 1) return {};
    const int error = SSL_get_error(ssl_.get(), done);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
      auto waited = Wait(error, by, "TLS handshake");
      if (!waited.ok()) broken_ = true;
      if (!waited.ok()) return waited;
      continue;
    }
    broken_ = true;
    const long verified = SSL_get_verify_result(ssl_.get());
    if (verified != X509_V_OK) {
      ERR_clear_error();
      return Error(ErrorCode::kUnauthenticated, std::string("peer's certificate refused: ") +
                                                    X509_verify_cert_error_string(verified));
    }
    if (error == SSL_ERROR_SSL) {
      return Error(ErrorCode::kUnauthenticated, "TLS handshake failed: " + OpenSslReason());
    }
    return Error(ErrorCode::kUnavailable, "peer closed during the TLS handshake");
  }
}

X509Ptr TlsStream::PeerCertificate() const {
  return X509Ptr(SSL_get1_peer_certificate(ssl_.get()));
}

Result<size_t> TlsStream::Read(std::span<std::byte> buffer, TimePoint by) {
  size_t filled = 0;
  while (filled < buffer.size()) {
    ERR_clear_error();
    size_t got = 0;
    const int done = SSL_read_ex(ssl_.get(), buffer.data() + filled, buffer.size() - filled, &got);
    if (done == 1) {
      filled += got;
      continue;  // A record holds 16 KiB: take the next ones too, as long as that needs no wait.
    }
    if (filled > 0) break;
    const int error = SSL_get_error(ssl_.get(), done);
    if (error == SSL_ERROR_ZERO_RETURN) return size_t{0};
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
      if (auto waited = Wait(error, by, "reading"); !waited.ok()) return std::move(waited).error();
      continue;
    }
    broken_ = true;
    const std::string why = error == SSL_ERROR_SSL ? ": " + OpenSslReason() : "";
    return Error(ErrorCode::kUnavailable, "connection lost while reading" + why);
  }
  return filled;
}

Result<void> TlsStream::Write(std::span<const std::byte> bytes, TimePoint by,
                              std::chrono::milliseconds stall) {
  while (!bytes.empty()) {
    if (broken_) return Error(ErrorCode::kUnavailable, "the connection is closed");
    ERR_clear_error();
    size_t written = 0;
    const int done = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written);
    if (done == 1) {
      bytes = bytes.subspan(written);
      continue;
    }
    const int error = SSL_get_error(ssl_.get(), done);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
      auto waited = Wait(error, std::min(by, std::chrono::steady_clock::now() + stall), "writing");
      if (waited.ok()) continue;
      broken_ = true;  // A torn record cannot be taken back.
      return waited;
    }
    broken_ = true;
    const std::string why = error == SSL_ERROR_SSL ? ": " + OpenSslReason() : "";
    return Error(ErrorCode::kUnavailable, "connection lost while writing" + why);
  }
  return {};
}

bool TlsStream::PeerClosed() const {
  if (broken_) return true;
  pollfd state{socket_, POLLRDHUP, 0};
  return ::poll(&state, 1, 0) > 0;  // Only RDHUP, HUP and ERR can come back.
}

void TlsStream::Close(TimePoint by) {
  if (ssl_ != nullptr && !broken_) {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    ERR_clear_error();
  }
  ::shutdown(socket_, SHUT_WR);
  std::array<char, 16384> void_of_bytes;
  while (PollUntil(socket_, POLLIN, by)) {
    const ssize_t got = ::recv(socket_, void_of_bytes.data(), void_of_bytes.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
    if (std::chrono::steady_clock::now() >= by) return;
  }
}

}  // namespace quadfs::transport
