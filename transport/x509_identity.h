#pragma once

#include <chrono>
#include <string>

#include "transport/base/result.h"
#include "transport/identity.h"
#include "transport/openssl.h"

namespace quadfs::transport {

/// "quadfs://<cluster>/<role>/<campus id>/<campus name>/<node id>/<name>", the subjectAltName that
/// holds an identity; <role> is node, hub, join-node or join-hub. The form is frozen.
std::string IdentityUri(const PeerIdentity& who);

/// The identity in a certificate, which the caller has verified. Errors: kUnauthenticated (not a
/// quadfs certificate).
Result<PeerIdentity> IdentityOf(X509* certificate);

/// Errors: kInvalidArgument (a name that cannot stand in a certificate; says what is allowed).
Result<void> CheckIdentity(const PeerIdentity& who);

struct Validity {
  std::chrono::system_clock::time_point not_before;
  std::chrono::system_clock::time_point not_after;
};

/// Signs `subject_key` for `who`; the end is cut to the issuer's own. A hub's certificate serves
/// and calls, all others only call. Errors: those of CheckIdentity, kUnknown.
Result<X509Ptr> IssueCertificate(X509* issuer, EVP_PKEY* issuer_key, EVP_PKEY* subject_key,
                                 const PeerIdentity& who, const Validity& validity);
/// The cluster's own root. Errors: kInvalidArgument, kUnknown.
Result<X509Ptr> IssueRoot(EVP_PKEY* key, const std::string& cluster, const Validity& validity);

/// A new ECDSA P-256 key.
Result<KeyPtr> MakeKey();
std::string SerialHex(const X509* certificate);

std::string ToPem(X509* certificate);
std::string ToPem(EVP_PKEY* key);
/// Errors: kInvalidArgument.
Result<X509Ptr> CertificateFromPem(std::string_view pem);
Result<KeyPtr> KeyFromPem(std::string_view pem);

}  // namespace quadfs::transport
