#include "transport/listen_socket.h"

#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>

namespace quadfs::transport {
namespace {

constexpr int kBacklog = 512;

Result<UniqueFd> ListenOn(const addrinfo& candidate, const std::string& address) {
  UniqueFd socket(::socket(candidate.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return ErrorFromErrno(errno, "listen on " + address);
  const int on = 1;
  const int off = 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (candidate.ai_family == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(socket.get(), candidate.ai_addr, candidate.ai_addrlen) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    const int why = errno;
    const char* hint = why == EADDRINUSE      ? "; is another quadfsd running?"
                       : why == EADDRNOTAVAIL ? "; this machine has no such address"
                                              : "";
    return Error(ErrorCode::kUnavailable,
                 ErrorFromErrno(why, "listen on " + address).message() + hint);
  }
  return socket;
}

}  // namespace

Result<HostPort> ParseHostPort(const std::string& address) {
  const Error bad(ErrorCode::kInvalidArgument,
                  "address '" + address + "': write host:port, such as 10.1.2.3:7440");
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad;
  HostPort parts{address.substr(0, colon), address.substr(colon + 1)};
  unsigned port = 0;
  const char* const end = parts.port.data() + parts.port.size();
  const auto parsed = std::from_chars(parts.port.data(), end, port);
  if (parts.port.empty() || parsed.ec != std::errc() || parsed.ptr != end || port > 65535) {
    return bad;
  }
  const bool bracketed = parts.host.front() == '[' && parts.host.back() == ']';
  if (bracketed) parts.host = parts.host.substr(1, parts.host.size() - 2);
  const bool clean = std::none_of(parts.host.begin(), parts.host.end(), [bracketed](char c) {
    return c <= ' ' || c == '/' || c == '@' || c == '[' || c == ']' || (c == ':' && !bracketed);
  });
  if (parts.host.empty() || !clean) return bad;
  return parts;
}

Result<UniqueFd> Listen(const std::string& address) {
  const HostPort parts = QUADFS_TRY(ParseHostPort(address));
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found);
  if (failed != 0) {
    return Error(ErrorCode::kInvalidArgument,
                 "listen on " + address + ": " + ::gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  return ListenOn(*found, address);
}

uint16_t PortOf(int socket) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  if (bound.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
}

std::string AddressText(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown address";
  }
  const std::string text(host.data());
  return (text.find(':') != std::string::npos ? "[" + text + "]" : text) + ":" + port.data();
}

}  // namespace quadfs::transport
