#pragma once

#include <curl/curl.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>

#include "transport/base/result.h"
#include "transport/identity.h"

namespace quadfs::transport {

/// A curl handle with everything set that all requests of one Client share; it keeps its connection
/// open between requests. Threads: one at a time.
class CurlHandle {
 public:
  /// Errors: kUnavailable (no memory).
  static Result<std::unique_ptr<CurlHandle>> Make(const TlsFiles& tls,
                                                  std::chrono::milliseconds connect);
  CURL* easy() const { return easy_.get(); }
  CURLM* multi() const { return multi_.get(); }
  /// curl's own words on the last failure.
  std::string Complaint(CURLcode code) const;

  size_t connected_to = SIZE_MAX;  ///< Address of the open connection in an AddressBook, if any.
  uint64_t age = 0;                ///< Which Reset of the Client it belongs to.

 private:
  struct Free {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
  };
  struct FreeMulti {
    void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
  };
  std::array<char, CURL_ERROR_SIZE> error_{};
  std::unique_ptr<CURLM, FreeMulti> multi_;  ///< Holds the open connection; drives `easy_` alone.
  std::unique_ptr<CURL, Free> easy_;
};

}  // namespace quadfs::transport
