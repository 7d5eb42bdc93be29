#include "fs/daemon/enrolment.h"

#include "fs/daemon/token_registry.h"
#include "transport/certificates.h"

namespace quadfs::daemon {
namespace {

using transport::PeerIdentity;
using transport::Role;

constexpr const char* kPath = "/v1/enroll";
constexpr size_t kMaxBodyBytes = size_t{256} << 10;
constexpr std::chrono::hours kMemberValidity{24 * 3650};

void Answer(transport::Response& response, const Result<std::string>& body) {
  // A broken connection ends here: the joiner repeats its request with the same key.
  if (body.ok()) {
    static_cast<void>(response.Reply(200, "application/json", *body));
  } else {
    static_cast<void>(response.Fail(body.error()));
  }
}

class MainEnrolment final : public Enrolment {
 public:
  MainEnrolment(EnrolmentOptions options, transport::CertificateAuthority authority,
                metadata::Hub& hub, metadata::LocalStore& store)
      : options_(std::move(options)), authority_(std::move(authority)), hub_(hub), tokens_(store) {}

  void AddRoutes(transport::Server& server) override {
    server.Route("POST", kPath, {Role::kJoin, Role::kHub},
                 [this](transport::Request& request, transport::Response& response) {
                   Answer(response, Handle(request));
                 });
  }

  Result<std::string> MakeJoinLine(const PeerIdentity& wanted,
                                   std::chrono::seconds validity) override {
    PeerIdentity who = wanted;
    who.role = Role::kJoin;
    who.cluster = authority_.cluster();
    who.node = NodeId();
    const bool hub = wanted.wanted_role == Role::kHub;
    if (hub) {
      who.name = who.campus_name;
      who.campus = CampusId();
    } else {
      who.campus = QUADFS_TRY(FindCampus(who.campus_name)).campus;
      QUADFS_TRY(CheckNameFree(who));
    }
    std::string serial;
    const std::string token = QUADFS_TRY(authority_.MakeToken(who, validity, &serial));
    QUADFS_TRY(tokens_.Issue(serial, who, validity));
    return JoinLine(hub ? options_.campus_name : who.campus_name, token);
  }

  Result<EnrolAnswer> EnrolLocalNode(const std::string& name, const std::string& csr_pem,
                                     Deadline deadline) override {
    PeerIdentity who;
    who.wanted_role = Role::kNode;
    who.campus = kMainCampus;
    who.campus_name = options_.campus_name;
    who.name = name;
    return Admit(who, {csr_pem, name, {}, ""}, deadline);
  }

 private:
  Result<std::string> Handle(transport::Request& request) {
    const std::string body = QUADFS_TRY(request.ReadAll(kMaxBodyBytes));
    const EnrolRequest wanted = QUADFS_TRY(DecodeEnrolRequest(body));
    const PeerIdentity& peer = request.peer();
    const bool passed_on = peer.role == Role::kHub;
    const std::string serial = passed_on ? wanted.via_serial : peer.serial;
    const PeerIdentity who = QUADFS_TRY(tokens_.Claim(serial, wanted.csr_pem));
    // A branch hub speaks for nodes of its own campus only.
    if (passed_on && (who.wanted_role != Role::kNode || who.campus != peer.campus)) {
      static_cast<void>(tokens_.Release(serial, wanted.csr_pem));
      return Error(ErrorCode::kUnauthenticated,
                   "the token is for campus " + who.campus_name + ", not for " + peer.campus_name);
    }
    auto answer = Admit(who, wanted, request.deadline());
    if (!answer.ok()) {
      static_cast<void>(tokens_.Release(serial, wanted.csr_pem));
      return std::move(answer).error();
    }
    return Encode(*answer);
  }

  Result<EnrolAnswer> Admit(const PeerIdentity& who, const EnrolRequest& wanted,
                            Deadline deadline) {
    const bool hub = who.wanted_role == Role::kHub;
    metadata::Member member;
    member.campus = who.campus;
    member.name = who.name.empty() ? wanted.name : who.name;
    if (hub) member.addresses = wanted.addresses;
    EnrolAnswer answer;
    answer.identity.role = who.wanted_role;
    answer.identity.wanted_role = who.wanted_role;
    answer.identity.cluster = authority_.cluster();
    answer.identity.name = member.name;
    answer.identity.campus_name = hub ? member.name : who.campus_name;
    if (hub) {
      member = QUADFS_TRY(EnrollCampus(member, deadline));
    } else {
      member = QUADFS_TRY(EnrollNode(member, deadline));
    }
    answer.identity.campus = member.campus;
    answer.identity.node = member.node;
    answer.certificate_pem =
        QUADFS_TRY(authority_.Sign(wanted.csr_pem, answer.identity, kMemberValidity));
    answer.ca_pem = authority_.certificate_pem();
    answer.cluster_name = options_.cluster_name;
    answer.main_campus = options_.campus_name;
    if (hub || member.campus == kMainCampus) {
      answer.hub_addresses = options_.advertise;
    } else if (auto campus = hub_.view().FindMember(member.campus, NodeId()); campus.ok()) {
      answer.hub_addresses = campus->addresses;
    }
    return answer;
  }

  Result<metadata::Member> EnrollCampus(metadata::Member wanted, Deadline deadline) {
    if (wanted.name == options_.campus_name) {
      return Error(ErrorCode::kExists, "campus " + wanted.name + " is main's own name");
    }
    wanted.campus = CampusId();
    return hub_.Enroll(wanted, deadline);
  }

  Result<metadata::Member> EnrollNode(metadata::Member wanted, Deadline deadline) {
    // NodeId() would be the campus's hub; the hub numbers a node by its name.
    wanted.node = kNewNode;
    return hub_.Enroll(wanted, deadline);
  }

  Result<metadata::Member> FindCampus(const std::string& name) const {
    const auto members = QUADFS_TRY(hub_.view().Members());
    std::string known;
    for (const metadata::Member& member : members) {
      if (member.node) continue;
      if (member.name == name) return member;
      known += (known.empty() ? "" : ", ") + member.name;
    }
    return Error(ErrorCode::kNotFound, "no campus " + name + "; known: " + known +
                                           "; add it with quadfs token --role hub --campus " +
                                           name);
  }

  Result<void> CheckNameFree(const PeerIdentity& who) const {
    for (const metadata::Member& member : QUADFS_TRY(hub_.view().Members())) {
      if (member.node && member.name == who.name && member.campus != who.campus) {
        return Error(ErrorCode::kExists, "another campus has a node " + who.name + " already");
      }
    }
    return {};
  }

  static constexpr NodeId kNewNode{UINT64_MAX};

  EnrolmentOptions options_;
  transport::CertificateAuthority authority_;
  metadata::Hub& hub_;
  TokenRegistry tokens_;
};

class BranchEnrolment final : public Enrolment {
 public:
  BranchEnrolment(EnrolmentOptions options, transport::Client& main)
      : options_(std::move(options)), main_(main) {}

  void AddRoutes(transport::Server& server) override {
    server.Route("POST", kPath, {Role::kJoin},
                 [this](transport::Request& request, transport::Response& response) {
                   Answer(response, PassOn(request));
                 });
  }
  Result<std::string> MakeJoinLine(const PeerIdentity&, std::chrono::seconds) override {
    return Error(ErrorCode::kNotSupported, "tokens are made at main's hub only");
  }
  Result<EnrolAnswer> EnrolLocalNode(const std::string&, const std::string&, Deadline) override {
    return Error(ErrorCode::kNotSupported,
                 "this hub cannot enrol; run quadfs join here with a token for a node");
  }

 private:
  Result<std::string> PassOn(transport::Request& request) {
    const std::string body = QUADFS_TRY(request.ReadAll(kMaxBodyBytes));
    EnrolRequest wanted = QUADFS_TRY(DecodeEnrolRequest(body));
    const PeerIdentity& peer = request.peer();
    if (peer.wanted_role != Role::kNode || peer.campus_name != options_.campus_name) {
      return Error(ErrorCode::kUnauthenticated,
                   "the token is not for a node of campus " + options_.campus_name);
    }
    wanted.via_serial = peer.serial;
    auto answer = main_.Call("POST", kPath, Encode(wanted), request.deadline());
    if (!answer.ok()) return std::move(answer).error().Within("main's hub");
    EnrolAnswer decoded = QUADFS_TRY(DecodeEnrolAnswer(answer->body));
    if (decoded.hub_addresses.empty()) decoded.hub_addresses = options_.advertise;
    return Encode(decoded);
  }

  EnrolmentOptions options_;
  transport::Client& main_;
};

}  // namespace

Result<std::unique_ptr<Enrolment>> MakeMainEnrolment(EnrolmentOptions options, metadata::Hub& hub,
                                                     metadata::LocalStore& store) {
  auto authority = QUADFS_TRY(transport::CertificateAuthority::Load(options.ca_directory));
  return std::unique_ptr<Enrolment>(
      std::make_unique<MainEnrolment>(std::move(options), std::move(authority), hub, store));
}

std::unique_ptr<Enrolment> MakeBranchEnrolment(EnrolmentOptions options, transport::Client& main) {
  return std::make_unique<BranchEnrolment>(std::move(options), main);
}

}  // namespace quadfs::daemon
