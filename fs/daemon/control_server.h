#pragma once

#include <memory>
#include <string>

#include "transport/base/result.h"

namespace quadfs::daemon {

class Daemon;

/// The control socket: one JSON line a request, lines of progress, one line of answer.
/// Who asks is told by the kernel (SO_PEERCRED, SO_PEERGROUPS): verbs that change the machine are
/// for root, the others look at paths with the asker's own rights.
/// A thread serves each connection, at most `kMaxConnections` at once.
/// Threads: Stop once, from any.
class ControlServer {
 public:
  static constexpr int kMaxConnections = 64;
  static constexpr size_t kMaxRequestBytes = size_t{1} << 20;

  /// Replaces a socket file that nobody listens on. Errors: kBusy (somebody does), kIo, kAccess.
  static Result<std::unique_ptr<ControlServer>> Start(const std::string& socket_path,
                                                      Daemon& daemon);
  virtual ~ControlServer() = default;
  /// Takes no more, cancels verbs under way, waits for them, removes the socket file.
  virtual void Stop() = 0;
};

}  // namespace quadfs::daemon
