#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/client.h"
#include "transport/identity.h"
#include "transport/server.h"

namespace quadfs::test {

/// A directory that goes away with the object.
class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A cluster's CA in a directory of its own, and certificates of any age for anybody.
class TestCluster {
 public:
  explicit TestCluster(std::string cluster = "c1");

  /// Certificate and key of `role` ("a1" at campus "a", or its hub), valid from `begins` to `ends`
  /// from now.
  transport::TlsFiles Make(transport::Role role,
                           std::chrono::seconds begins = std::chrono::hours(-1),
                           std::chrono::seconds ends = std::chrono::hours(1),
                           const std::string& campus = "a");
  std::string hub_name(const std::string& campus = "a") const {
    return transport::HubDnsName(campus, cluster_);
  }
  std::string ca_path() const { return directory_.path() + "/ca.crt"; }
  const std::string& directory() const { return directory_.path(); }

  /// A server with hub a's certificate on a free port of the loopback.
  std::unique_ptr<transport::Server> MakeServer(transport::Server::Options options = {});
  /// A client of hub a with a node's certificate.
  std::unique_ptr<transport::Client> MakeClient(const transport::Server& server);
  std::unique_ptr<transport::Client> MakeClient(std::vector<std::string> addresses,
                                                const transport::TlsFiles& tls);

 private:
  TempDirectory directory_;
  std::string cluster_;
  int made_ = 0;
};

std::string LoopbackAddress(uint16_t port);
/// A loopback port on which nothing listens.
uint16_t ClosedPort();
inline Deadline Soon() { return Deadline::After(std::chrono::seconds(20)); }

/// `size` bytes that depend on `seed`.
std::string Pattern(size_t size, uint64_t seed);

}  // namespace quadfs::test
