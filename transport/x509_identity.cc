#include "transport/x509_identity.h"

#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>

namespace quadfs::transport {
namespace {

Error Failed(std::string_view what) {
  return {ErrorCode::kUnknown, std::string(what) + ": " + OpenSslReason()};
}

bool SetSubject(X509* certificate, const std::string& organisation, const std::string& name) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  const auto add = [subject](const char* field, const std::string& value) {
    return X509_NAME_add_entry_by_txt(subject, field, MBSTRING_UTF8,
                                      reinterpret_cast<const unsigned char*>(value.data()),
                                      static_cast<int>(value.size()), -1, 0) == 1;
  };
  return add("O", organisation) && add("CN", name);
}

bool SetRandomSerial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) return false;
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7FU) | 0x40U);  // Positive, fixed length.
  const BignumPtr number(BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  return BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool AddExtension(X509* issuer, X509* certificate, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  if (extension == nullptr) return false;
  const bool added = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

/// Version, serial, times and key: what a root and a leaf have in common.
Result<X509Ptr> MakeUnsigned(EVP_PKEY* key, const Validity& validity) {
  X509Ptr certificate(X509_new());
  const auto seconds = [](std::chrono::system_clock::time_point at) {
    return std::chrono::system_clock::to_time_t(at);
  };
  if (certificate == nullptr || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      !SetRandomSerial(certificate.get()) || X509_set_pubkey(certificate.get(), key) != 1 ||
      ASN1_TIME_set(X509_getm_notBefore(certificate.get()), seconds(validity.not_before)) ==
          nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate.get()), seconds(validity.not_after)) ==
          nullptr) {
    return Failed("making a certificate");
  }
  return certificate;
}

std::string PemOf(const BIO* bio) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(const_cast<BIO*>(bio), &text);
  return {text, static_cast<size_t>(std::max(size, 0L))};
}

BioPtr Reader(std::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

/// Refuses an encrypted key instead of asking the terminal for its password.
int NoPassword(char*, int, int, void*) { return -1; }

}  // namespace

Result<X509Ptr> IssueCertificate(X509* issuer, EVP_PKEY* issuer_key, EVP_PKEY* subject_key,
                                 const PeerIdentity& who, const Validity& validity) {
  if (auto checked = CheckIdentity(who); !checked.ok()) return std::move(checked).error();
  X509Ptr certificate = QUADFS_TRY(MakeUnsigned(subject_key, validity));
  X509* raw = certificate.get();
  if (ASN1_TIME_compare(X509_get0_notAfter(issuer), X509_get0_notAfter(raw)) < 0 &&
      X509_set1_notAfter(raw, X509_get0_notAfter(issuer)) != 1) {
    return Failed("making a certificate");
  }
  const bool hub = who.role == Role::kHub;
  std::string names = "URI:" + IdentityUri(who);
  if (hub) names += ",DNS:" + HubDnsName(who.campus_name, who.cluster);
  if (!SetSubject(raw, who.cluster, who.name.empty() ? "join" : who.name) ||
      X509_set_issuer_name(raw, X509_get_subject_name(issuer)) != 1 ||
      !AddExtension(issuer, raw, NID_basic_constraints, "critical,CA:FALSE") ||
      !AddExtension(issuer, raw, NID_key_usage, "critical,digitalSignature") ||
      !AddExtension(issuer, raw, NID_ext_key_usage, hub ? "clientAuth,serverAuth" : "clientAuth") ||
      !AddExtension(issuer, raw, NID_subject_alt_name, names) ||
      !AddExtension(issuer, raw, NID_subject_key_identifier, "hash") ||
      !AddExtension(issuer, raw, NID_authority_key_identifier, "keyid") ||
      X509_sign(raw, issuer_key, EVP_sha256()) == 0) {
    return Failed("signing a certificate");
  }
  return certificate;
}

Result<X509Ptr> IssueRoot(EVP_PKEY* key, const std::string& cluster, const Validity& validity) {
  PeerIdentity probe;
  probe.cluster = cluster;
  probe.role = Role::kJoin;
  if (auto checked = CheckIdentity(probe); !checked.ok()) return std::move(checked).error();
  X509Ptr certificate = QUADFS_TRY(MakeUnsigned(key, validity));
  X509* raw = certificate.get();
  if (!SetSubject(raw, cluster, "quadfs CA") ||
      X509_set_issuer_name(raw, X509_get_subject_name(raw)) != 1 ||
      !AddExtension(raw, raw, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !AddExtension(raw, raw, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !AddExtension(raw, raw, NID_subject_key_identifier, "hash") ||
      X509_sign(raw, key, EVP_sha256()) == 0) {
    return Failed("signing the root certificate");
  }
  return certificate;
}

Result<KeyPtr> MakeKey() {
  KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failed("making a key");
  return key;
}

std::string SerialHex(const X509* certificate) {
  const BignumPtr number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  if (number == nullptr) return {};
  const std::unique_ptr<char, OpenSslFree<[](char* text) { OPENSSL_free(text); }>> text(
      BN_bn2hex(number.get()));
  std::string hex(text != nullptr ? text.get() : "");
  for (char& c : hex) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  return hex;
}

std::string ToPem(X509* certificate) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(out.get(), certificate);
  return PemOf(out.get());
}

std::string ToPem(EVP_PKEY* key) {
  const BioPtr out(BIO_new(BIO_s_secmem()));
  PEM_write_bio_PKCS8PrivateKey(out.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return PemOf(out.get());
}

Result<X509Ptr> CertificateFromPem(std::string_view pem) {
  X509Ptr certificate(PEM_read_bio_X509(Reader(pem).get(), nullptr, NoPassword, nullptr));
  if (certificate == nullptr) {
    return Error(ErrorCode::kInvalidArgument, "not a certificate: " + OpenSslReason());
  }
  return certificate;
}

Result<KeyPtr> KeyFromPem(std::string_view pem) {
  KeyPtr key(PEM_read_bio_PrivateKey(Reader(pem).get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) {
    return Error(ErrorCode::kInvalidArgument, "not a private key: " + OpenSslReason());
  }
  return key;
}

}  // namespace quadfs::transport
