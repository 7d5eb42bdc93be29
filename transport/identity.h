#pragma once

#include <cstdint>
#include <string>

#include "transport/base/ids.h"
#include "transport/base/result.h"

namespace quadfs::transport {

/// What a certificate allows its owner. The numbers stand in certificates: frozen.
enum class Role : uint8_t {
  kNode = 1,  ///< A machine that mounts /grid: speaks to its campus's hub.
  kHub = 2,   ///< A campus's server: speaks to main's hub.
  kJoin = 3,  ///< A one-time token: may call /v1/enroll once, nothing else.
};

/// Who a verified peer is. Read from its certificate, never from what it says.
struct PeerIdentity {
  std::string cluster;  ///< Cluster id (hex) made by `quadfs init`.
  Role role = Role::kNode;
  CampusId campus;
  std::string campus_name;
  NodeId node;                     ///< 0 for a hub.
  std::string name;                ///< Node name; for a hub its campus name.
  std::string serial;              ///< Certificate serial, hex.
  Role wanted_role = Role::kNode;  ///< For kJoin: what the joiner may become; else its role.
};

/// Files of this process's certificate, its key (mode 0600) and the cluster's CA.
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string ca;
};

/// The DNS name a hub's certificate carries and clients insist on, whatever address they dial:
/// "hub.<campus name>.<cluster id>.quadfs".
std::string HubDnsName(const std::string& campus_name, const std::string& cluster);

/// Reads who a certificate file belongs to. Errors: kInvalidArgument with file name.
Result<PeerIdentity> ReadIdentity(const std::string& certificate_path);

}  // namespace quadfs::transport
