#include "transport/certificates.h"

#include <openssl/pem.h>
#include <unistd.h>

#include "transport/private_file.h"
#include "transport/x509_identity.h"

namespace quadfs::transport {
namespace {

constexpr size_t kMaxPemBytes = size_t{64} << 10;
constexpr std::chrono::hours kClockSlack{24};
constexpr std::chrono::hours kRootValidity{20 * 365 * 24};

std::string CertificatePath(const std::string& directory) { return directory + "/ca.crt"; }
std::string KeyPath(const std::string& directory) { return directory + "/ca.key"; }

Result<std::string> SubjectField(const X509* certificate, int kind) {
  std::string text(65, '\0');
  const int size = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), kind, text.data(),
                                             static_cast<int>(text.size()));
  if (size <= 0) return Error(ErrorCode::kInvalidArgument, "no cluster id in the CA certificate");
  text.resize(static_cast<size_t>(size));
  return text;
}

}  // namespace

Result<CertificateAuthority> CertificateAuthority::Create(const std::string& directory,
                                                          const std::string& cluster) {
  CertificateAuthority authority;
  const auto now = std::chrono::system_clock::now();
  const KeyPtr key = QUADFS_TRY(MakeKey());
  const X509Ptr root =
      QUADFS_TRY(IssueRoot(key.get(), cluster, {now - kClockSlack, now + kRootValidity}));
  authority.directory_ = directory;
  authority.cluster_ = cluster;
  authority.certificate_pem_ = ToPem(root.get());
  authority.key_pem_ = ToPem(key.get());
  if (auto made = MakePrivateDirectory(directory); !made.ok()) return std::move(made).error();
  if (::access(CertificatePath(directory).c_str(), F_OK) == 0) {
    return Error(ErrorCode::kExists, directory + ": a CA is there already");
  }
  auto written = CreateFileExclusively(KeyPath(directory), authority.key_pem_, 0600);
  if (!written.ok()) return std::move(written).error();
  written = CreateFileExclusively(CertificatePath(directory), authority.certificate_pem_, 0644);
  if (!written.ok()) {
    ::unlink(KeyPath(directory).c_str());
    return std::move(written).error();
  }
  return authority;
}

Result<CertificateAuthority> CertificateAuthority::Load(const std::string& directory) {
  CertificateAuthority authority;
  authority.directory_ = directory;
  authority.certificate_pem_ = QUADFS_TRY(ReadSmallFile(CertificatePath(directory), kMaxPemBytes));
  if (auto checked = CheckPrivate(KeyPath(directory)); !checked.ok()) {
    return std::move(checked).error();
  }
  authority.key_pem_ = QUADFS_TRY(ReadSmallFile(KeyPath(directory), kMaxPemBytes));
  const auto within = [&directory](Error error) { return std::move(error).Within(directory); };
  auto root = CertificateFromPem(authority.certificate_pem_);
  if (!root.ok()) return within(std::move(root).error());
  auto key = KeyFromPem(authority.key_pem_);
  if (!key.ok()) return within(std::move(key).error());
  if (X509_check_private_key(root->get(), key->get()) != 1) {
    ERR_clear_error();
    return Error(ErrorCode::kInvalidArgument, directory + ": ca.key does not belong to ca.crt");
  }
  auto cluster = SubjectField(root->get(), NID_organizationName);
  if (!cluster.ok()) return within(std::move(cluster).error());
  authority.cluster_ = *cluster;
  return authority;
}

Result<std::string> CertificateAuthority::Sign(const std::string& csr_pem, const PeerIdentity& who,
                                               std::chrono::seconds validity) const {
  if (csr_pem.size() > kMaxPemBytes) {
    return Error(ErrorCode::kInvalidArgument, "certificate request is too large");
  }
  const BioPtr reader(BIO_new_mem_buf(csr_pem.data(), static_cast<int>(csr_pem.size())));
  const X509RequestPtr request(PEM_read_bio_X509_REQ(reader.get(), nullptr, nullptr, nullptr));
  EVP_PKEY* subject_key = request != nullptr ? X509_REQ_get0_pubkey(request.get()) : nullptr;
  // The self-signature proves that the asker has the private key.
  if (subject_key == nullptr || X509_REQ_verify(request.get(), subject_key) != 1) {
    return Error(ErrorCode::kInvalidArgument, "not a certificate request: " + OpenSslReason());
  }
  std::string group(32, '\0');
  size_t group_size = 0;
  if (EVP_PKEY_get_group_name(subject_key, group.data(), group.size(), &group_size) != 1 ||
      group.substr(0, group_size) != "prime256v1") {
    ERR_clear_error();
    return Error(ErrorCode::kInvalidArgument, "certificate request: the key must be ECDSA P-256");
  }
  if (who.cluster != cluster_) {
    return Error(ErrorCode::kInvalidArgument,
                 "this CA is of cluster " + cluster_ + ", not of " + who.cluster);
  }
  const X509Ptr root = QUADFS_TRY(CertificateFromPem(certificate_pem_));
  const KeyPtr key = QUADFS_TRY(KeyFromPem(key_pem_));
  const auto now = std::chrono::system_clock::now();
  const X509Ptr certificate = QUADFS_TRY(IssueCertificate(root.get(), key.get(), subject_key, who,
                                                          {now - kClockSlack, now + validity}));
  return ToPem(certificate.get());
}

Result<std::string> MakeKeyAndRequest(const std::string& key_path) {
  const KeyPtr key = QUADFS_TRY(MakeKey());
  const X509RequestPtr request(X509_REQ_new());
  if (request == nullptr || X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) != 1 ||
      X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) == 0) {
    return Error(ErrorCode::kUnknown, "making a certificate request: " + OpenSslReason());
  }
  const BioPtr out(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509_REQ(out.get(), request.get());
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  std::string pem(text, static_cast<size_t>(size));
  if (auto written = CreateFileExclusively(key_path, ToPem(key.get()), 0600); !written.ok()) {
    return std::move(written).error();
  }
  return pem;
}

}  // namespace quadfs::transport
