#include "transport/certificates.h"

#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/support/matchers.h"
#include "transport/private_file.h"
#include "transport/tls_context.h"
#include "transport/x509_identity.h"

namespace quadfs::transport {
namespace {

using test::IsError;
using test::IsOk;
using testing::HasSubstr;

class CertificatesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "quadfs-XXXXXX").string();
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    directory_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static unsigned ModeOf(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
  }
  static PeerIdentity Node() {
    PeerIdentity who;
    who.cluster = "beef01";
    who.campus = CampusId{3};
    who.campus_name = "b";
    who.node = NodeId{12};
    who.name = "b-gpu.01";
    return who;
  }
  std::string Write(const std::string& name, const std::string& content, mode_t mode = 0600) {
    const std::string path = directory_ + "/" + name;
    EXPECT_THAT(ReplaceFile(path, content, mode), IsOk());
    return path;
  }

  std::string directory_;
};

TEST_F(CertificatesTest, CaIsMadeOnceAndLoadedAgain) {
  const std::string ca = directory_ + "/deep/er/ca";
  const auto made = CertificateAuthority::Create(ca, "beef01");
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(ModeOf(ca + "/ca.key"), 0600U);
  EXPECT_EQ(ModeOf(ca), 0700U);
  EXPECT_THAT(CertificateAuthority::Create(ca, "beef01"), IsError(ErrorCode::kExists));
  const auto loaded = CertificateAuthority::Load(ca);
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->cluster(), "beef01");
  EXPECT_EQ(loaded->certificate_pem(), made->certificate_pem());
  const X509Ptr root = *CertificateFromPem(loaded->certificate_pem());
  EXPECT_EQ(X509_check_ca(root.get()), 1);
  EXPECT_EQ(X509_get_pathlen(root.get()), 0);
  EXPECT_THAT(CertificateAuthority::Load(directory_ + "/none"), IsError(ErrorCode::kNotFound));
}

TEST_F(CertificatesTest, CaKeyThatOthersCanReadIsRefused) {
  ASSERT_THAT(CertificateAuthority::Create(directory_, "beef01"), IsOk());
  ASSERT_EQ(::chmod((directory_ + "/ca.key").c_str(), 0640), 0);
  const auto loaded = CertificateAuthority::Load(directory_);
  ASSERT_THAT(loaded, IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(loaded.error().message(), HasSubstr("chmod 600"));
}

TEST_F(CertificatesTest, CaKeyOfAnotherCaIsRefused) {
  ASSERT_THAT(CertificateAuthority::Create(directory_ + "/one", "beef01"), IsOk());
  ASSERT_THAT(CertificateAuthority::Create(directory_ + "/two", "beef01"), IsOk());
  std::filesystem::copy_file(directory_ + "/two/ca.key", directory_ + "/one/ca.key",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(CertificateAuthority::Load(directory_ + "/one"),
              IsError(ErrorCode::kInvalidArgument));
}

// Everything a certificate says comes back, and its uses fit the role.
TEST_F(CertificatesTest, IdentityRoundTrip) {
  const auto ca = CertificateAuthority::Create(directory_ + "/ca", "beef01");
  ASSERT_THAT(ca, IsOk());
  const std::string key_path = directory_ + "/this.key";
  const auto request = MakeKeyAndRequest(key_path);
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(ModeOf(key_path), 0600U);
  EXPECT_THAT(MakeKeyAndRequest(key_path), IsError(ErrorCode::kExists));
  for (const Role role : {Role::kNode, Role::kHub}) {
    PeerIdentity who = Node();
    who.role = role;
    const auto pem = ca->Sign(*request, who, std::chrono::hours(1));
    ASSERT_THAT(pem, IsOk());
    const TlsFiles files{Write("this.crt", *pem), key_path, directory_ + "/ca/ca.crt"};
    const auto read = CheckTlsFiles(files);
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(IdentityUri(*read), IdentityUri(who));
    EXPECT_EQ(read->campus, who.campus);
    EXPECT_EQ(read->node, who.node);
    EXPECT_EQ(read->serial.size(), 32U);
    const X509Ptr certificate = *CertificateFromPem(*pem);
    const uint32_t usage = X509_get_extended_key_usage(certificate.get());
    EXPECT_EQ(usage, role == Role::kHub ? XKU_SSL_CLIENT | XKU_SSL_SERVER : XKU_SSL_CLIENT);
    EXPECT_EQ(X509_check_host(certificate.get(), "hub.b.beef01.quadfs", 0, 0, nullptr),
              role == Role::kHub ? 1 : 0);
    EXPECT_EQ(X509_check_ca(certificate.get()), 0);
  }
}

// The form of the name is frozen: certificates live longer than releases.
TEST_F(CertificatesTest, GoldenIdentityUri) {
  EXPECT_EQ(IdentityUri(Node()), "quadfs://beef01/node/3/b/12/b-gpu.01");
  PeerIdentity joiner = Node();
  joiner.role = Role::kJoin;
  joiner.wanted_role = Role::kHub;
  joiner.name.clear();
  EXPECT_EQ(IdentityUri(joiner), "quadfs://beef01/join-hub/3/b/12/");
}

// A name must not be able to add a field of its own to the certificate.
TEST_F(CertificatesTest, NamesThatWouldForgeFieldsAreRefused) {
  const auto ca = CertificateAuthority::Create(directory_ + "/ca", "beef01");
  const auto request = MakeKeyAndRequest(directory_ + "/this.key");
  for (const std::string bad : {"", "a/b", "a,DNS:x", "a b", "a\nb", "ü"}) {
    PeerIdentity who = Node();
    who.name = bad;
    EXPECT_THAT(ca->Sign(*request, who, std::chrono::hours(1)),
                IsError(ErrorCode::kInvalidArgument))
        << bad;
    who = Node();
    who.campus_name = bad;
    EXPECT_THAT(ca->Sign(*request, who, std::chrono::hours(1)),
                IsError(ErrorCode::kInvalidArgument))
        << bad;
  }
  PeerIdentity foreign = Node();
  foreign.cluster = "other";
  EXPECT_THAT(ca->Sign(*request, foreign, std::chrono::hours(1)),
              IsError(ErrorCode::kInvalidArgument));
}

TEST_F(CertificatesTest, RequestsThatProveNothingAreRefused) {
  const auto ca = CertificateAuthority::Create(directory_ + "/ca", "beef01");
  EXPECT_THAT(ca->Sign("hello", Node(), std::chrono::hours(1)),
              IsError(ErrorCode::kInvalidArgument));
  auto request = *MakeKeyAndRequest(directory_ + "/this.key");
  const size_t middle = request.size() - 60;  // Inside the signature.
  request[middle] = request[middle] == 'A' ? 'B' : 'A';
  EXPECT_THAT(ca->Sign(request, Node(), std::chrono::hours(1)),
              IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(ca->Sign(std::string(100'000, 'x'), Node(), std::chrono::hours(1)),
              IsError(ErrorCode::kInvalidArgument));
}

TEST_F(CertificatesTest, TokenRoundTrip) {
  const auto ca = CertificateAuthority::Create(directory_ + "/ca", "beef01");
  PeerIdentity who = Node();
  who.role = Role::kHub;
  std::string serial;
  const auto line = ca->MakeToken(who, std::chrono::hours(1), &serial);
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(
      line->find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:"
                              "-_"),
      std::string::npos);
  const auto token = UnpackToken("  " + *line + "\r\n", directory_ + "/tls");
  ASSERT_THAT(token, IsOk());
  EXPECT_EQ(token->wanted_role, Role::kHub);
  EXPECT_EQ(token->identity.role, Role::kJoin);
  EXPECT_EQ(token->identity.wanted_role, Role::kHub);
  EXPECT_EQ(token->identity.campus_name, "b");
  EXPECT_EQ(token->identity.serial, serial);
  EXPECT_EQ(ModeOf(token->tls.key), 0600U);
  EXPECT_THAT(CheckTlsFiles(token->tls), IsOk());
  EXPECT_THAT(UnpackToken(*line, directory_ + "/tls"), IsOk()) << "a second try must work";
}

TEST_F(CertificatesTest, DamagedAndExpiredTokensAreRefused) {
  const auto ca = CertificateAuthority::Create(directory_ + "/ca", "beef01");
  const std::string line = *ca->MakeToken(Node(), std::chrono::hours(1), nullptr);
  EXPECT_THAT(UnpackToken("", directory_), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(UnpackToken("quadfs1:", directory_), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(UnpackToken("quadfs1:AAAAAAAA", directory_), IsError(ErrorCode::kInvalidArgument));
  for (size_t at = 8; at < line.size(); at += 97) {
    std::string damaged = line;
    damaged[at] = damaged[at] == 'A' ? 'B' : 'A';
    EXPECT_THAT(UnpackToken(damaged, directory_), IsError(ErrorCode::kInvalidArgument)) << at;
    EXPECT_THAT(UnpackToken(line.substr(0, at), directory_), IsError(ErrorCode::kInvalidArgument))
        << at;
  }
  const std::string expired = *ca->MakeToken(Node(), std::chrono::seconds(-1), nullptr);
  const auto refused = UnpackToken(expired, directory_);
  ASSERT_THAT(refused, IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(refused.error().message(), HasSubstr("expired"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/join.key"));
}

TEST_F(CertificatesTest, WrongFilesAreNamed) {
  const auto ca = CertificateAuthority::Create(directory_ + "/ca", "beef01");
  const auto other = CertificateAuthority::Create(directory_ + "/other", "beef01");
  const auto request = MakeKeyAndRequest(directory_ + "/this.key");
  const TlsFiles good{Write("this.crt", *ca->Sign(*request, Node(), std::chrono::hours(1))),
                      directory_ + "/this.key", directory_ + "/ca/ca.crt"};
  ASSERT_THAT(CheckTlsFiles(good), IsOk());
  const auto refuses = [](const TlsFiles& files, const std::string& named) {
    const auto checked = CheckTlsFiles(files);
    EXPECT_THAT(checked, IsError(ErrorCode::kInvalidArgument));
    if (!checked.ok()) {
      EXPECT_THAT(checked.error().message(), HasSubstr(named));
    }
  };
  TlsFiles bad = good;
  bad.certificate = directory_ + "/absent.crt";
  refuses(bad, "absent.crt");
  bad = good;
  bad.key = directory_ + "/ca/ca.key";
  refuses(bad, "ca.key: does not belong");
  bad = good;
  bad.ca = directory_ + "/other/ca.crt";
  refuses(bad, "is not signed by");
  bad = good;
  bad.certificate = good.ca;
  refuses(bad, "no member of a quadfs cluster");
  ASSERT_EQ(::chmod(good.key.c_str(), 0644), 0);
  refuses(good, "chmod 600");
}

TEST_F(CertificatesTest, PrivateFilesNeverOverwriteAndReplaceLeavesNothingBehind) {
  const std::string path = directory_ + "/file";
  ASSERT_THAT(CreateFileExclusively(path, "one", 0600), IsOk());
  EXPECT_THAT(CreateFileExclusively(path, "two", 0600), IsError(ErrorCode::kExists));
  ASSERT_THAT(ReplaceFile(path, "three", 0600), IsOk());
  EXPECT_EQ(*ReadSmallFile(path, 100), "three");
  EXPECT_THAT(ReadSmallFile(path, 4), IsError(ErrorCode::kTooLarge));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

}  // namespace
}  // namespace quadfs::transport
