#pragma once

#include <sys/socket.h>

#include <string>

#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace quadfs::transport {

/// "host:port" or "[ipv6]:port", cut in two. Errors: kInvalidArgument.
struct HostPort {
  std::string host, port;
};
Result<HostPort> ParseHostPort(const std::string& address);

/// A non-blocking listening socket. Errors: kInvalidArgument (address), kUnavailable (in use).
Result<UniqueFd> Listen(const std::string& address);
/// The port a socket is bound to.
uint16_t PortOf(int socket);
/// "10.1.2.3:40000".
std::string AddressText(const sockaddr* address, socklen_t size);

}  // namespace quadfs::transport
