#include "tests/transport/tls_fixture.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "transport/certificates.h"
#include "transport/listen_socket.h"
#include "transport/private_file.h"
#include "transport/x509_identity.h"

namespace quadfs::test {

using transport::PeerIdentity;
using transport::Role;
using transport::TlsFiles;

namespace {

/// The value, or an exception that fails the test with the reason.
template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().ToString());
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

}  // namespace

TempDirectory::TempDirectory() {
  std::string path = (std::filesystem::temp_directory_path() / "quadfs-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("mkdtemp " + path);
  path_ = path;
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

TestCluster::TestCluster(std::string cluster) : cluster_(std::move(cluster)) {
  Must(transport::CertificateAuthority::Create(directory_.path(), cluster_));
}

TlsFiles TestCluster::Make(Role role, std::chrono::seconds begins, std::chrono::seconds ends,
                           const std::string& campus) {
  PeerIdentity who;
  who.cluster = cluster_;
  who.role = role;
  who.campus = CampusId{2};
  who.campus_name = campus;
  who.node = NodeId{role == Role::kHub ? 0U : 7U};
  who.name = role == Role::kHub ? campus : campus + "1";
  const auto root =
      Must(transport::CertificateFromPem(Must(transport::ReadSmallFile(ca_path(), 65536))));
  const auto root_key = Must(
      transport::KeyFromPem(Must(transport::ReadSmallFile(directory_.path() + "/ca.key", 65536))));
  const auto key = Must(transport::MakeKey());
  const auto now = std::chrono::system_clock::now();
  const auto certificate = Must(transport::IssueCertificate(root.get(), root_key.get(), key.get(),
                                                            who, {now + begins, now + ends}));
  const std::string base = directory_.path() + "/" + std::to_string(++made_);
  Must(transport::CreateFileExclusively(base + ".crt", transport::ToPem(certificate.get()), 0644));
  Must(transport::CreateFileExclusively(base + ".key", transport::ToPem(key.get()), 0600));
  return {base + ".crt", base + ".key", ca_path()};
}

std::unique_ptr<transport::Server> TestCluster::MakeServer(transport::Server::Options options) {
  options.address = "127.0.0.1:0";
  return Must(transport::Server::Create(std::move(options), Make(Role::kHub)));
}

std::unique_ptr<transport::Client> TestCluster::MakeClient(const transport::Server& server) {
  return MakeClient({LoopbackAddress(server.port())}, Make(Role::kNode));
}

std::unique_ptr<transport::Client> TestCluster::MakeClient(std::vector<std::string> addresses,
                                                           const TlsFiles& tls) {
  transport::Client::Options options;
  options.server_name = hub_name();
  options.addresses = std::move(addresses);
  return Must(transport::Client::Create(std::move(options), tls));
}

std::string LoopbackAddress(uint16_t port) { return "127.0.0.1:" + std::to_string(port); }

uint16_t ClosedPort() {
  const UniqueFd socket = Must(transport::Listen("127.0.0.1:0"));
  return transport::PortOf(socket.get());
}

std::string Pattern(size_t size, uint64_t seed) {
  std::string text(size, '\0');
  uint64_t state = seed * 2 + 1;
  for (char& c : text) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    c = static_cast<char>(state >> 56);
  }
  return text;
}

}  // namespace quadfs::test
