#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "transport/base/clock.h"
#include "transport/base/result.h"
#include "transport/identity.h"

namespace quadfs::transport {

/// An answer of 2xx. Anything else arrives as the Error that the other side named.
struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< Names in lower case.
  std::string body;                            ///< Empty where a sink took it.
};

/// A hub as this process reaches it: several addresses tried in order, the first that proves by
/// certificate to be the hub wins; a pool of kept-alive connections; an interface, so that tests
/// put a twin or a faulty wrapper in its place.
/// Threads: every method may be called concurrently; each call blocks its caller, with a bound.
/// Errors of every call: kUnavailable (nobody answers; names the addresses and why each failed,
/// such as refused, timed out, wrong certificate; while all are in back-off, at most 2 s, it fails
/// at once), kTimedOut, kUnauthenticated (the hub refuses our certificate, or this call of ours),
/// kNotSupported (the hub serves no such thing), and whatever the handler failed with. An answer
/// that is lost after the request was sent is kUnavailable for GET, which may be repeated, and
/// kTimedOut for the others: the hub may have acted. On a kept-alive connection that turns out to
/// be dead a request may be sent twice.
class Client {
 public:
  struct Options {
    std::string server_name;             ///< HubDnsName the certificate must carry.
    std::vector<std::string> addresses;  ///< host:port, in order of preference.
    uint32_t max_idle_connections = 16;
    std::chrono::milliseconds connect{3000};  ///< TCP and TLS, per address.
  };
  using Headers = std::map<std::string, std::string>;
  using Sink = std::function<Result<void>(std::span<const std::byte>)>;
  /// Fills the buffer, returns bytes; 0 ends the body.
  using Source = std::function<Result<size_t>(std::span<std::byte>)>;

  /// Errors: kInvalidArgument (TLS files, no addresses).
  static Result<std::unique_ptr<Client>> Create(Options options, const TlsFiles& tls);
  virtual ~Client() = default;

  /// A small message there and back, at most 16 MiB each way.
  virtual Result<Answer> Call(const std::string& method, const std::string& target,
                              std::string_view body, Deadline deadline,
                              const Headers& headers = {}) = 0;

  /// Bulk answer into `sink`, which sees only bytes of a 2xx answer. `deadline` bounds the whole;
  /// a connection that carries nothing for 5 s fails with kTimedOut before it.
  virtual Result<Answer> Download(const std::string& method, const std::string& target,
                                  std::string_view body, Deadline deadline, const Sink& sink,
                                  const Headers& headers = {}) = 0;

  /// Bulk body from `source`, exactly `body_bytes` long. Stalls as in Download, but once all is
  /// sent only the deadline counts: the hub may have much to store.
  virtual Result<Answer> Upload(const std::string& target, uint64_t body_bytes,
                                const Source& source, Deadline deadline,
                                const Headers& headers = {}) = 0;

  /// An endless answer on a connection of its own. Success means `stop`; else it ends with the
  /// error of `sink`, kTimedOut when `silence` passes without a byte, kUnavailable when the hub
  /// ends it.
  virtual Result<void> Follow(const std::string& target, std::chrono::milliseconds silence,
                              std::stop_token stop, const Sink& sink,
                              const Headers& headers = {}) = 0;

  /// Forgets failed addresses and closes idle connections (after a SIGHUP).
  virtual void Reset() = 0;
};

}  // namespace quadfs::transport
