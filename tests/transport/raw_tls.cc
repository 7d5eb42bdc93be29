#include "tests/transport/raw_tls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <csignal>
#include <stdexcept>

#include "transport/listen_socket.h"

namespace quadfs::test {
namespace {

void Use(SSL_CTX* context, const transport::TlsFiles& tls) {
  if (SSL_CTX_use_certificate_chain_file(context, tls.certificate.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(context, tls.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    throw std::runtime_error("test certificate: " + transport::OpenSslReason());
  }
}

void SetTimeout(int socket) {
  const timeval limit{10, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

}  // namespace

UniqueFd ConnectLoopback(uint16_t port) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  SetTimeout(socket.get());
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    socket.Reset();
  }
  return socket;
}

RawTlsClient::RawTlsClient(uint16_t port, const transport::TlsFiles* tls, int max_version)
    : context_(SSL_CTX_new(TLS_client_method())), socket_(ConnectLoopback(port)) {
  ::signal(SIGPIPE, SIG_IGN);
  if (tls != nullptr) Use(context_.get(), *tls);
  if (max_version != 0) SSL_CTX_set_max_proto_version(context_.get(), max_version);
  if (!socket_) return;
  ssl_.reset(SSL_new(context_.get()));
  SSL_set_fd(ssl_.get(), socket_.get());
  handshaken_ = SSL_connect(ssl_.get()) == 1;
}

bool RawTlsClient::Send(const std::string& text) {
  return handshaken_ && SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())) > 0;
}

bool RawTlsClient::AwaitReadable(std::chrono::milliseconds wait) const {
  pollfd waiting{socket_.get(), POLLIN, 0};
  return ::poll(&waiting, 1, static_cast<int>(wait.count())) > 0;
}

std::string RawTlsClient::Receive(size_t size) {
  std::string text;
  std::array<char, 4096> part{};
  while (handshaken_ && text.size() < size) {
    const int got = SSL_read(ssl_.get(), part.data(), static_cast<int>(part.size()));
    if (got <= 0) break;
    text.append(part.data(), static_cast<size_t>(got));
  }
  return text;
}

std::string RawTlsClient::ReceiveAll(bool& closed) {
  std::string text = Receive(SIZE_MAX);
  char byte = 0;
  const ssize_t got = ::recv(socket_.get(), &byte, 1, 0);  // Behind its TLS goodbye: the end.
  closed = got == 0 || (got < 0 && errno != EAGAIN);
  return text;
}

RawTlsServer::RawTlsServer(const transport::TlsFiles& tls, std::string answer)
    : context_(SSL_CTX_new(TLS_server_method())), answer_(std::move(answer)) {
  ::signal(SIGPIPE, SIG_IGN);
  Use(context_.get(), tls);
  auto listener = transport::Listen("127.0.0.1:0");
  if (!listener.ok()) throw std::runtime_error(listener.error().ToString());
  listener_ = std::move(*listener);
  port_ = transport::PortOf(listener_.get());
  thread_ = std::jthread([this](const std::stop_token& stop) { Loop(stop); });
}

RawTlsServer::~RawTlsServer() {
  thread_.request_stop();
  ::shutdown(listener_.get(), SHUT_RDWR);
}

void RawTlsServer::Loop(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    pollfd waiting{listener_.get(), POLLIN, 0};
    ::poll(&waiting, 1, -1);
    const UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;
    SetTimeout(socket.get());
    const transport::SslPtr ssl(SSL_new(context_.get()));
    SSL_set_fd(ssl.get(), socket.get());
    std::array<char, 65536> request{};
    if (SSL_accept(ssl.get()) != 1) continue;
    if (SSL_read(ssl.get(), request.data(), static_cast<int>(request.size())) <= 0) continue;
    ++requests_;
    if (!answer_.empty()) {
      SSL_write(ssl.get(), answer_.data(), static_cast<int>(answer_.size()));
      SSL_shutdown(ssl.get());
    }
  }
}

}  // namespace quadfs::test
