#pragma once

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace quadfs::transport {

/// Frees an OpenSSL object with its own function, so that unique_ptr owns it.
template <auto kFree>
struct OpenSslFree {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using BioPtr = std::unique_ptr<BIO, OpenSslFree<BIO_free_all>>;
using BignumPtr = std::unique_ptr<BIGNUM, OpenSslFree<BN_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpenSslFree<EVP_PKEY_free>>;
using X509Ptr = std::unique_ptr<X509, OpenSslFree<X509_free>>;
using X509RequestPtr = std::unique_ptr<X509_REQ, OpenSslFree<X509_REQ_free>>;
using SslPtr = std::unique_ptr<SSL, OpenSslFree<SSL_free>>;
using SslContextPtr = std::unique_ptr<SSL_CTX, OpenSslFree<SSL_CTX_free>>;

/// What this thread's last OpenSSL failure was; empties its error queue.
inline std::string OpenSslReason() {
  const unsigned long number = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(number);
  ERR_clear_error();
  return reason != nullptr ? reason : "unknown OpenSSL error";
}

}  // namespace quadfs::transport
