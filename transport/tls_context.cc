#include "transport/tls_context.h"

#include "transport/private_file.h"
#include "transport/x509_identity.h"

namespace quadfs::transport {
namespace {

constexpr size_t kMaxPemBytes = size_t{64} << 10;
// One read system call then fetches several TLS records; below malloc's mmap threshold.
constexpr size_t kReadAheadBytes = size_t{64} << 10;

Error Invalid(const std::string& file, const std::string& why) {
  return {ErrorCode::kInvalidArgument, file + ": " + why};
}

Result<std::string> ReadPem(const std::string& path) {
  auto pem = ReadSmallFile(path, kMaxPemBytes);
  if (!pem.ok()) return Error(ErrorCode::kInvalidArgument, pem.error().message());
  return pem;
}

}  // namespace

Result<PeerIdentity> CheckTlsFiles(const TlsFiles& files) {
  const PeerIdentity who = QUADFS_TRY(ReadIdentity(files.certificate));
  const std::string certificate_pem = QUADFS_TRY(ReadPem(files.certificate));
  if (auto checked = CheckPrivate(files.key); !checked.ok()) return std::move(checked).error();
  const std::string key_pem = QUADFS_TRY(ReadPem(files.key));
  const std::string ca_pem = QUADFS_TRY(ReadPem(files.ca));
  const X509Ptr certificate = QUADFS_TRY(CertificateFromPem(certificate_pem));
  auto key = KeyFromPem(key_pem);
  if (!key.ok()) return std::move(key).error().Within(files.key);
  auto root = CertificateFromPem(ca_pem);
  if (!root.ok()) return std::move(root).error().Within(files.ca);
  if (X509_check_private_key(certificate.get(), key->get()) != 1) {
    ERR_clear_error();
    return Invalid(files.key, "does not belong to " + files.certificate);
  }
  if (X509_verify(certificate.get(), X509_get0_pubkey(root->get())) != 1) {
    ERR_clear_error();
    return Invalid(files.certificate, "is not signed by " + files.ca);
  }
  return who;
}

Result<SslContextPtr> MakeServerContext(const TlsFiles& files) {
  SslContextPtr context(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* raw = context.get();
  if (raw == nullptr || SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(raw, kCipherSuites) != 1 ||
      SSL_CTX_set1_groups_list(raw, "X25519:P-256") != 1) {
    return Error(ErrorCode::kInvalidArgument, "TLS 1.3 is not available: " + OpenSslReason());
  }
  SSL_CTX_set_options(raw, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF |
                               SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(raw, 1);
  SSL_CTX_set_default_read_buffer_len(raw, kReadAheadBytes);
  SSL_CTX_set_num_tickets(raw, 0);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_default_passwd_cb(raw, [](char*, int, int, void*) { return -1; });
  if (SSL_CTX_use_certificate_chain_file(raw, files.certificate.c_str()) != 1) {
    return Invalid(files.certificate, OpenSslReason());
  }
  if (SSL_CTX_use_PrivateKey_file(raw, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Invalid(files.key, OpenSslReason());
  }
  if (SSL_CTX_load_verify_file(raw, files.ca.c_str()) != 1) {
    return Invalid(files.ca, OpenSslReason());
  }
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_verify_depth(raw, 1);
  return context;
}

}  // namespace quadfs::transport
