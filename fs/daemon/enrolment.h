#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "fs/daemon/enrol_message.h"
#include "metadata/hub.h"
#include "metadata/local_store.h"
#include "transport/base/result.h"
#include "transport/client.h"
#include "transport/server.h"

namespace quadfs::daemon {

/// How campuses and nodes become members: a token made at main, one POST /v1/enroll, a certificate.
/// Only main's hub signs; a branch hub passes its nodes' requests on.
/// Threads: every method may be called concurrently.
class Enrolment {
 public:
  virtual ~Enrolment() = default;
  virtual void AddRoutes(transport::Server& server) = 0;

  /// A line for `quadfs join`. `wanted`: wanted_role, campus_name, name. Errors: kNotSupported (not
  /// at main), kNotFound (no such campus), kExists (the name is another campus's).
  virtual Result<std::string> MakeJoinLine(const transport::PeerIdentity& wanted,
                                           std::chrono::seconds validity) = 0;
  /// Enrols the node of this very process, without a token. Errors: kNotSupported (not at main).
  virtual Result<EnrolAnswer> EnrolLocalNode(const std::string& name, const std::string& csr_pem,
                                             Deadline deadline) = 0;
};

struct EnrolmentOptions {
  std::string ca_directory;
  std::string cluster_name;
  std::string campus_name;             ///< Of this hub.
  std::vector<std::string> advertise;  ///< Its addresses.
};

/// At main. Errors: those of CertificateAuthority::Load.
Result<std::unique_ptr<Enrolment>> MakeMainEnrolment(EnrolmentOptions options, metadata::Hub& hub,
                                                     metadata::LocalStore& store);
/// At a branch. `main` outlives it.
std::unique_ptr<Enrolment> MakeBranchEnrolment(EnrolmentOptions options, transport::Client& main);

}  // namespace quadfs::daemon
