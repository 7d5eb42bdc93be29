#pragma once

#include <chrono>
#include <string>

#include "transport/base/result.h"
#include "transport/identity.h"

namespace quadfs::transport {

/// The cluster's own small CA (X.509, ECDSA P-256). Its key stays at main with mode 0600.
/// Validity begins a day before `now`, so that clocks minutes apart do not matter.
class CertificateAuthority {
 public:
  /// Makes a new CA in `directory` (ca.crt, ca.key). Errors: kExists if one is there, kIo.
  static Result<CertificateAuthority> Create(const std::string& directory,
                                             const std::string& cluster);
  /// Errors: kNotFound, kInvalidArgument.
  static Result<CertificateAuthority> Load(const std::string& directory);

  const std::string& cluster() const { return cluster_; }
  const std::string& certificate_pem() const { return certificate_pem_; }

  /// Signs the public key of `csr_pem` for `who` (everything but the key is taken from `who`,
  /// nothing from the request). Returns the certificate as PEM.
  Result<std::string> Sign(const std::string& csr_pem, const PeerIdentity& who,
                           std::chrono::seconds validity) const;

  /// A one-time token: one printable line that holds a short-lived kJoin certificate with its key
  /// and the CA certificate. `who`: what the joiner will become. `serial_out`: to remember it as
  /// unused. Whoever has the line may join once, until it expires.
  Result<std::string> MakeToken(const PeerIdentity& who, std::chrono::seconds validity,
                                std::string* serial_out) const;

 private:
  std::string directory_, cluster_, certificate_pem_, key_pem_;
};

/// A parsed token, written into `directory` as files so that a Client can use it.
struct JoinToken {
  TlsFiles tls;
  PeerIdentity identity;  ///< role kJoin; campus, name: what the joiner will become.
  Role wanted_role = Role::kNode;
};
/// Errors: kInvalidArgument (not a token, damaged, expired).
Result<JoinToken> UnpackToken(const std::string& line, const std::string& directory);

/// Makes a private key at `key_path` (0600) and returns a CSR for it as PEM.
Result<std::string> MakeKeyAndRequest(const std::string& key_path);

}  // namespace quadfs::transport
