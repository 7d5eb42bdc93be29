#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/result.h"
#include "transport/identity.h"

namespace quadfs::daemon {

/// Body of POST /v1/enroll, as JSON. A joiner sends it to the hub that it will belong to (a hub to
/// main's); a branch hub passes it on and adds who asked, as it read from the token's certificate.
struct EnrolRequest {
  std::string csr_pem;
  std::string name;                    ///< Wanted, where the token leaves it open.
  std::vector<std::string> addresses;  ///< Of a hub: how others reach it.
  std::string via_serial;              ///< Passed on: the token's serial.
};

/// What the joiner gets.
struct EnrolAnswer {
  std::string certificate_pem;
  std::string ca_pem;
  transport::PeerIdentity identity;
  std::string cluster_name;
  std::string main_campus;
  std::vector<std::string> hub_addresses;  ///< Further addresses of the hub to speak to.
};

std::string Encode(const EnrolRequest& request);
std::string Encode(const EnrolAnswer& answer);
/// Errors: kInvalidArgument.
Result<EnrolRequest> DecodeEnrolRequest(std::string_view body);
Result<EnrolAnswer> DecodeEnrolAnswer(std::string_view body);

/// The line people paste: "<campus whose hub to ask>@<transport token>".
std::string JoinLine(const std::string& hub_campus, const std::string& token);
struct JoinLineParts {
  std::string hub_campus, token;
};
/// Errors: kInvalidArgument.
Result<JoinLineParts> SplitJoinLine(std::string_view line);

}  // namespace quadfs::daemon
