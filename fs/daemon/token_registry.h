#pragma once

#include <chrono>
#include <set>
#include <string>

#include "metadata/local_store.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/identity.h"

namespace quadfs::daemon {

/// The tokens that main has issued: each may enrol once. Durable.
///
/// A token is *unused*, *claimed* by one certificate request (it may only be repeated with the very
/// same one: its answer may have been lost), or expired.
/// Threads: every method may be called concurrently.
class TokenRegistry {
 public:
  static constexpr const char* kFamily = "token";

  explicit TokenRegistry(metadata::LocalStore& store) : store_(store) {}

  /// Remembers a new token. Forgets those that expired a day ago or earlier.
  Result<void> Issue(const std::string& serial, const transport::PeerIdentity& wanted,
                     std::chrono::seconds validity);

  /// Takes the token for the certificate request; says for whom it was issued.
  /// Errors: kUnauthenticated (never issued, expired, used by another request).
  Result<transport::PeerIdentity> Claim(const std::string& serial, const std::string& csr_pem);

  /// The enrolment failed: the token is unused again.
  Result<void> Release(const std::string& serial, const std::string& csr_pem);

 private:
  struct Row;
  Result<Row> Read(const std::string& serial) const;
  Result<void> Write(const std::string& serial, const Row& row);
  void ForgetExpired();

  metadata::LocalStore& store_;
  Mutex mutex_;  ///< Orders read and write of a row; taken a few times in a cluster's life.
};

}  // namespace quadfs::daemon
