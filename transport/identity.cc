#include "transport/identity.h"

#include <openssl/x509v3.h>

#include <charconv>
#include <vector>

#include "transport/private_file.h"
#include "transport/x509_identity.h"

namespace quadfs::transport {
namespace {

constexpr std::string_view kScheme = "quadfs://";
constexpr size_t kMaxCertificateFileBytes = size_t{64} << 10;

std::string RoleText(const PeerIdentity& who) {
  switch (who.role) {
    case Role::kNode: return "node";
    case Role::kHub: return "hub";
    case Role::kJoin: return who.wanted_role == Role::kHub ? "join-hub" : "join-node";
  }
  return "";
}

bool ParseRole(std::string_view text, PeerIdentity& who) {
  who.wanted_role = text == "join-hub" || text == "hub" ? Role::kHub : Role::kNode;
  if (text == "node") {
    who.role = Role::kNode;
  } else if (text == "hub") {
    who.role = Role::kHub;
  } else if (text == "join-node" || text == "join-hub") {
    who.role = Role::kJoin;
  } else {
    return false;
  }
  return true;
}

bool ParseNumber(std::string_view text, uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool ParseUri(std::string_view uri, PeerIdentity& who) {
  if (!uri.starts_with(kScheme)) return false;
  uri.remove_prefix(kScheme.size());
  std::vector<std::string_view> parts;
  for (size_t slash = 0; slash != std::string_view::npos && parts.size() <= 6;) {
    slash = uri.find('/');
    parts.push_back(uri.substr(0, slash));
    if (slash != std::string_view::npos) uri.remove_prefix(slash + 1);
  }
  if (parts.size() != 6 || !ParseRole(parts[1], who)) return false;
  who.cluster = parts[0];
  who.campus_name = parts[3];
  who.name = parts[5];
  return ParseNumber(parts[2], who.campus.value) && ParseNumber(parts[4], who.node.value);
}

bool IsName(std::string_view text, std::string_view punctuation) {
  if (text.empty() || text.size() > 63) return false;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && punctuation.find(c) == std::string_view::npos) return false;
  }
  return true;
}

}  // namespace

std::string HubDnsName(const std::string& campus_name, const std::string& cluster) {
  return "hub." + campus_name + "." + cluster + ".quadfs";
}

std::string IdentityUri(const PeerIdentity& who) {
  return std::string(kScheme) + who.cluster + "/" + RoleText(who) + "/" +
         std::to_string(who.campus.value) + "/" + who.campus_name + "/" +
         std::to_string(who.node.value) + "/" + who.name;
}

Result<void> CheckIdentity(const PeerIdentity& who) {
  if (!IsName(who.cluster, "-")) {
    return Error(ErrorCode::kInvalidArgument,
                 "cluster id '" + who.cluster + "': use 1 to 63 letters, digits and '-'");
  }
  // A token may leave open what the joiner will be called; a member may not.
  const bool open = who.role == Role::kJoin;
  if (!(open && who.campus_name.empty()) && !IsName(who.campus_name, "-_")) {
    return Error(ErrorCode::kInvalidArgument,
                 "campus name '" + who.campus_name + "': use 1 to 63 letters, digits, '-' and '_'");
  }
  if (!(open && who.name.empty()) && !IsName(who.name, "-_.")) {
    return Error(ErrorCode::kInvalidArgument,
                 "name '" + who.name + "': use 1 to 63 letters, digits, '-', '_' and '.'");
  }
  return {};
}

Result<PeerIdentity> IdentityOf(X509* certificate) {
  using Names = std::unique_ptr<GENERAL_NAMES, OpenSslFree<GENERAL_NAMES_free>>;
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* text = name->d.uniformResourceIdentifier;
    // Raw bytes with their length: a NUL inside must not cut the name short.
    const std::string uri(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                          static_cast<size_t>(ASN1_STRING_length(text)));
    PeerIdentity who;
    if (!ParseUri(uri, who) || !CheckIdentity(who).ok()) continue;
    who.serial = SerialHex(certificate);
    return who;
  }
  return Error(ErrorCode::kUnauthenticated, "certificate names no member of a quadfs cluster");
}

Result<PeerIdentity> ReadIdentity(const std::string& certificate_path) {
  auto pem = ReadSmallFile(certificate_path, kMaxCertificateFileBytes);
  if (!pem.ok()) return Error(ErrorCode::kInvalidArgument, pem.error().message());
  auto certificate = CertificateFromPem(*pem);
  if (!certificate.ok()) {
    return Error(ErrorCode::kInvalidArgument, certificate_path + ": not a certificate in PEM form");
  }
  auto who = IdentityOf(certificate->get());
  if (!who.ok()) {
    return Error(ErrorCode::kInvalidArgument, certificate_path + ": " + who.error().message());
  }
  return who;
}

}  // namespace quadfs::transport
