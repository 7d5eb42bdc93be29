/// The control socket of a forwarder: one line in, one line out, a connection for each request.
///
///   status               a JSON object: settings, and per direction cut state and counters
///   set KEY=VALUE ...     rate_bits_per_s, rtt_ns, loss, corrupt; all or nothing
///   cut ab|ba|both        drop everything in that direction
///   heal                  stop doing so in both directions
///
/// The answer is the JSON, "ok", or "error: REASON".
/// Threads: Serve by one thread.
#pragma once

#include <string>

#include "link_direction.h"

namespace quadfs::lab {

class ControlServer {
 public:
  /// Listens on a new unix socket. Ends the program with a message if that fails.
  ControlServer(const std::string& socket_path, LinkSettings& settings, LinkDirection& a_to_b,
                LinkDirection& b_to_a);

  /// Answers requests; never returns.
  [[noreturn]] void Serve();

 private:
  std::string Answer(const std::string& request);
  std::string Status() const;
  std::string Set(const std::string& assignments);
  std::string Cut(const std::string& direction);

  int listen_fd_;
  LinkSettings& settings_;
  LinkDirection& a_to_b_;
  LinkDirection& b_to_a_;
};

}  // namespace quadfs::lab
