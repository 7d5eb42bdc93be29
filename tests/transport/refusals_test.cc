// Who is not let in, on either side, and that both are told why.
#include <openssl/ssl.h>

#include "tests/support/matchers.h"
#include "tests/transport/raw_tls.h"
#include "tests/transport/tls_fixture.h"
#include "transport/base/mutex.h"
#include "transport/private_file.h"
#include "transport/x509_identity.h"

namespace quadfs::test {
namespace {

using testing::HasSubstr;
using transport::Request;
using transport::Response;
using transport::Role;
using transport::TlsFiles;
using namespace std::chrono_literals;

class RefusalsTest : public testing::Test {
 protected:
  void SetUp() override {
    transport::Server::Options options;
    options.on_refused = [this](const std::string& address, const std::string& reason) {
      MutexLock lock(mutex_);
      refusals_.push_back(address + ": " + reason);
      changed_.NotifyAll();
    };
    server_ = cluster_.MakeServer(options);
    server_->Route("GET", "/", {Role::kNode, Role::kHub, Role::kJoin},
                   [this](Request&, Response& response) {
                     ++served_;
                     (void)response.Reply(200, "", "secret");
                   });
    ASSERT_THAT(server_->Start(), IsOk());
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Stop();
  }

  std::string AwaitRefusal() {
    const auto by = std::chrono::steady_clock::now() + 20s;
    MutexLock lock(mutex_);
    while (refusals_.empty() && changed_.WaitUntil(mutex_, by)) {
    }
    return refusals_.empty() ? "nobody was refused" : refusals_.front();
  }
  /// A client of ours with this certificate, past the checks of its own files.
  Result<transport::Answer> CallWith(TlsFiles tls) {
    tls.ca = cluster_.ca_path();
    return cluster_.MakeClient({LoopbackAddress(server_->port())}, tls)
        ->Call("GET", "/", "", Soon());
  }
  /// True if someone with `tls` (null: nothing) gets a byte.
  bool GetsAnything(const TlsFiles* tls, int max_version = 0) {
    RawTlsClient client(server_->port(), tls, max_version);
    client.Send("GET / HTTP/1.1\r\n\r\n");
    return !client.Receive(1).empty();
  }

  TestCluster cluster_;
  std::atomic<int> served_{0};
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> refusals_;
  std::unique_ptr<transport::Server> server_;
};

TEST_F(RefusalsTest, RightCertificateIsLetIn) {
  const TlsFiles tls = cluster_.Make(Role::kNode);
  EXPECT_TRUE(GetsAnything(&tls));
  EXPECT_THAT(CallWith(tls), IsOk());
}

TEST_F(RefusalsTest, NoCertificate) {
  EXPECT_FALSE(GetsAnything(nullptr));
  EXPECT_THAT(AwaitRefusal(), HasSubstr("peer did not return a certificate"));
  EXPECT_EQ(served_, 0);
}

TEST_F(RefusalsTest, CertificateOfAnotherCa) {
  TestCluster foreign;  // The same names, another key.
  const TlsFiles tls = foreign.Make(Role::kNode);
  EXPECT_FALSE(GetsAnything(&tls));
  EXPECT_THAT(AwaitRefusal(), HasSubstr("peer's certificate refused"));
  EXPECT_EQ(served_, 0);
}

TEST_F(RefusalsTest, SelfSignedCertificate) {
  const TlsFiles own{cluster_.directory() + "/self.crt", cluster_.directory() + "/self.key", ""};
  const auto key = transport::MakeKey();
  const auto now = std::chrono::system_clock::now();
  const auto root = transport::IssueRoot(key->get(), "c1", {now - 1h, now + 1h});
  ASSERT_THAT(transport::ReplaceFile(own.certificate, transport::ToPem(root->get()), 0644), IsOk());
  ASSERT_THAT(transport::ReplaceFile(own.key, transport::ToPem(key->get()), 0600), IsOk());
  EXPECT_FALSE(GetsAnything(&own));
  EXPECT_THAT(AwaitRefusal(), HasSubstr("self-signed certificate"));
  EXPECT_EQ(served_, 0);
}

TEST_F(RefusalsTest, ExpiredCertificateAndTheClientIsTold) {
  const auto answer = CallWith(cluster_.Make(Role::kNode, -2h, -1h));
  ASSERT_THAT(answer, IsError(ErrorCode::kUnauthenticated));
  EXPECT_THAT(answer.error().message(), HasSubstr("refuses this machine's certificate"));
  EXPECT_THAT(answer.error().message(), HasSubstr("expired"));
  EXPECT_THAT(AwaitRefusal(), HasSubstr("certificate has expired"));
  EXPECT_EQ(served_, 0);
}

TEST_F(RefusalsTest, CertificateNotYetValid) {
  EXPECT_THAT(CallWith(cluster_.Make(Role::kNode, 1h, 2h)), IsError(ErrorCode::kUnauthenticated));
  EXPECT_THAT(AwaitRefusal(), HasSubstr("certificate is not yet valid"));
  EXPECT_EQ(served_, 0);
}

// Signed by our CA, but it names nobody of the cluster: the CA's own certificate.
TEST_F(RefusalsTest, CertificateWithoutAnIdentity) {
  const TlsFiles ca{cluster_.ca_path(), cluster_.directory() + "/ca.key", cluster_.ca_path()};
  EXPECT_FALSE(GetsAnything(&ca));
  EXPECT_EQ(AwaitRefusal().find("nobody"), std::string::npos);
  EXPECT_EQ(served_, 0);
}

TEST_F(RefusalsTest, OlderTlsAndPlainText) {
  const TlsFiles tls = cluster_.Make(Role::kNode);
  EXPECT_FALSE(GetsAnything(&tls, TLS1_2_VERSION));
  EXPECT_THAT(AwaitRefusal(), HasSubstr("unsupported protocol"));
  EXPECT_EQ(served_, 0);
}

TEST_F(RefusalsTest, ClientRefusesANodesCertificateAsAServers) {
  // The same name as the hub in it would not help: it may not serve.
  RawTlsServer impostor(cluster_.Make(Role::kNode), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  const auto client =
      cluster_.MakeClient({LoopbackAddress(impostor.port())}, cluster_.Make(Role::kNode));
  EXPECT_THAT(client->Call("GET", "/", "", Soon()), IsError(ErrorCode::kUnavailable));
  EXPECT_EQ(impostor.requests(), 0);
}

TEST_F(RefusalsTest, ClientRefusesForeignAndExpiredHubs) {
  TestCluster foreign;
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  const TlsFiles node = cluster_.Make(Role::kNode);
  for (const TlsFiles& hub : {foreign.Make(Role::kHub), cluster_.Make(Role::kHub, -2h, -1h),
                              cluster_.Make(Role::kHub, 1h, 2h)}) {
    RawTlsServer impostor(hub, answer);
    const auto called =
        cluster_.MakeClient({LoopbackAddress(impostor.port())}, node)->Call("GET", "/", "", Soon());
    ASSERT_THAT(called, IsError(ErrorCode::kUnavailable));
    EXPECT_THAT(called.error().message(), HasSubstr("its certificate is refused"));
    EXPECT_EQ(impostor.requests(), 0);
  }
  RawTlsServer real(cluster_.Make(Role::kHub), answer);  // The control: the same server, accepted.
  EXPECT_THAT(
      cluster_.MakeClient({LoopbackAddress(real.port())}, node)->Call("GET", "/", "", Soon()),
      IsOk());
}

}  // namespace
}  // namespace quadfs::test
