#pragma once

#include "transport/base/result.h"
#include "transport/identity.h"
#include "transport/openssl.h"

namespace quadfs::transport {

/// TLS 1.3 only; AES-128-GCM first: the fastest where the processor has AES.
inline constexpr char kCipherSuites[] =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

/// Reads and checks the three files: they exist, the key is private and belongs to the certificate,
/// the CA signed it. Returns whose certificate it is. Errors: kInvalidArgument with the file.
Result<PeerIdentity> CheckTlsFiles(const TlsFiles& files);

/// For the listening side: demands a certificate that the cluster's CA signed, keeps no sessions.
/// Errors: kInvalidArgument with the file.
Result<SslContextPtr> MakeServerContext(const TlsFiles& files);

}  // namespace quadfs::transport
