#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/result.h"
#include "transport/identity.h"

namespace quadfs::daemon {

/// quadfs.toml: what this machine is. Member names are the keys.
/// Every mistake in the file becomes one line: "quadfs.toml:12: hub.listen: …; allowed: …".
struct Config {
  struct Hub {
    std::string listen = "0.0.0.0:7440";
    std::vector<std::string> advertise;  ///< How others reach it: host:port.
    std::string store;                   ///< The campus's storage: a plain tree.
    std::string cache = "/var/cache/quadfs/hub";
    uint64_t cache_bytes = uint64_t{100} << 30;
    std::vector<std::string> main;  ///< Addresses of main's hub; empty: this one is main's.
    bool primary() const { return main.empty(); }
  };
  struct Node {
    std::string name;
    std::string mount = "/grid";
    std::string cache = "/var/cache/quadfs/node";
    uint64_t cache_bytes = uint64_t{1} << 40;
    uint64_t free_floor_bytes = uint64_t{1} << 30;  ///< The disk keeps this much free.
    std::vector<std::string> hubs;                  ///< Addresses of the campus's hub.
    std::string store_path;  ///< Where this node mounts the campus's store; or empty.
    std::chrono::milliseconds deadline_ms{5000};  ///< Of what needs the network.
    std::string when_cut = "fail";                ///< Then: "fail" with EIO, or "wait".
    bool allow_other = true;
    bool passthrough = true;
  };
  struct WriteBack {
    uint64_t limit_bytes_per_second = 200'000'000;  ///< 0: none.
  };

  std::string cluster;
  std::string campus;
  std::string state_dir = "/var/lib/quadfs";
  std::string run_dir = "/run/quadfs";
  std::string log_level = "info";
  transport::TlsFiles tls;  ///< Default: state_dir/tls/{this.crt,this.key,ca.crt}.
  std::optional<Hub> hub;
  std::optional<Node> node;
  WriteBack writeback;

  std::string path;                    ///< The file it came from.
  std::map<std::string, int> line_of;  ///< Key to line; absent: a default.

  std::string socket_path() const { return run_dir + "/quadfsd.sock"; }
  std::string ca_dir() const { return state_dir + "/ca"; }
  std::string campus_file() const { return state_dir + "/campus.json"; }
  /// Certificate and key of the node role: `tls`, or beside it where this machine is a hub too.
  transport::TlsFiles node_tls() const;
  /// "quadfs.toml:12: key: message", the form of every complaint about a value.
  Error Complaint(const std::string& key, const std::string& message) const;
};

inline constexpr const char* kDefaultConfigPath = "/etc/quadfs/quadfs.toml";

/// Checks everything that can be told from the text alone.
/// Errors: kInvalidArgument, one line.
Result<Config> ParseConfig(std::string_view text, const std::string& path);

/// Reads and parses it. Errors: kNotFound (no such file; says how to make one), kInvalidArgument.
Result<Config> LoadConfig(const std::string& path);

/// Checks what a daemon needs on this machine: certificate files exist, the key is private,
/// the store is a directory. Errors: kInvalidArgument, one line with the key's line in the file.
Result<void> CheckFiles(const Config& config);

/// Each key with its value as text, defaults included: for reload and for status.
std::map<std::string, std::string> FlattenConfig(const Config& config);

/// The text of a file that says just this (defaults left out).
std::string WriteConfig(const Config& config);

/// "host:port" or "[v6]:port" with a port of 0…65535 (0 only if `allow_zero`).
bool IsHostPort(std::string_view text, bool allow_zero);

}  // namespace quadfs::daemon
