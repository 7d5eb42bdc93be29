#include "fs/daemon/enrolment.h"

#include <fstream>

#include "tests/support/cache_files.h"
#include "tests/support/daemon_twins.h"
#include "tests/support/matchers.h"
#include "tests/support/transport_twins.h"
#include "transport/certificates.h"

namespace quadfs::daemon {
namespace {

using test::IsError;
using test::IsOk;
using transport::PeerIdentity;
using transport::Role;

const std::chrono::seconds kHour(3600);

class EnrolmentTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string ca = folder_.path() + "/ca";
    ASSERT_THAT(transport::CertificateAuthority::Create(ca, "cafe"), IsOk());
    auto made = MakeMainEnrolment({ca, "lab", "main", {"hub-main:7440"}}, hub_, store_);
    ASSERT_THAT(made, IsOk());
    main_ = std::move(*made);
    main_->AddRoutes(server_);
  }

  /// The token's identity, as a server reads it from the certificate in the line.
  PeerIdentity Joiner(const std::string& line, const std::string& name) {
    const auto parts = SplitJoinLine(line);
    EXPECT_THAT(parts, IsOk());
    const auto token = transport::UnpackToken(parts->token, folder_.path() + "/" + name);
    EXPECT_THAT(token, IsOk());
    return token->identity;
  }
  std::string Csr(const std::string& name) {
    auto csr = transport::MakeKeyAndRequest(folder_.path() + "/" + name + ".key");
    EXPECT_THAT(csr, IsOk());
    return *csr;
  }
  std::string NodeLine(const std::string& name, const std::string& campus = "main") {
    PeerIdentity wanted;
    wanted.wanted_role = Role::kNode;
    wanted.campus_name = campus;
    wanted.name = name;
    auto line = main_->MakeJoinLine(wanted, kHour);
    EXPECT_THAT(line, IsOk());
    return line.ok() ? *line : "";
  }
  Result<EnrolAnswer> Enrol(test::TwinServer& server, const PeerIdentity& peer,
                            const EnrolRequest& request) {
    test::TwinClient client(server, peer);
    auto answer = client.Call("POST", "/v1/enroll", Encode(request),
                              Deadline::After(std::chrono::seconds(10)));
    if (!answer.ok()) return std::move(answer).error();
    return DecodeEnrolAnswer(answer->body);
  }
  Result<EnrolAnswer> JoinCampus(const std::string& name) {
    PeerIdentity wanted;
    wanted.wanted_role = Role::kHub;
    wanted.campus_name = name;
    const auto line = main_->MakeJoinLine(wanted, kHour);
    if (!line.ok()) return line.error();
    return Enrol(server_, Joiner(*line, "campus-" + name),
                 {Csr("campus-" + name), name, {"hub-" + name + ":7440"}, ""});
  }

  test::TempDirectory folder_;
  test::MemLocalStore store_;
  test::MembersHub hub_;
  test::TwinServer server_;
  std::unique_ptr<Enrolment> main_;
};

TEST_F(EnrolmentTest, ANodeJoinsAndItsCertificateSaysWhoItIs) {
  const PeerIdentity joiner = Joiner(NodeLine("m1"), "t");
  const auto answer = Enrol(server_, joiner, {Csr("m1"), "ignored", {}, ""});
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->identity.name, "m1");  // The token decides, not the joiner.
  EXPECT_EQ(answer->main_campus, "main");
  EXPECT_EQ(answer->hub_addresses, std::vector<std::string>{"hub-main:7440"});
  const std::string path = folder_.path() + "/m1.crt";
  std::ofstream(path) << answer->certificate_pem;
  const auto who = transport::ReadIdentity(path);
  ASSERT_THAT(who, IsOk());
  EXPECT_EQ(who->role, Role::kNode);
  EXPECT_EQ(who->campus, kMainCampus);
  EXPECT_TRUE(who->node);
  EXPECT_EQ(who->name, "m1");
}

TEST_F(EnrolmentTest, ATokenWorksOnce) {
  const PeerIdentity joiner = Joiner(NodeLine("m1"), "t");
  ASSERT_THAT(Enrol(server_, joiner, {Csr("first"), "", {}, ""}), IsOk());
  EXPECT_GT(store_.syncs(), 0);  // Before the answer.
  const auto again = Enrol(server_, joiner, {Csr("second"), "", {}, ""});
  ASSERT_THAT(again, IsError(ErrorCode::kUnauthenticated));
  EXPECT_THAT(again.error().message(), testing::HasSubstr("used already"));
}

// The answer was lost: the same request gets the same membership again.
TEST_F(EnrolmentTest, TheSameRequestMayBeRepeated) {
  const PeerIdentity joiner = Joiner(NodeLine("m1"), "t");
  const EnrolRequest request{Csr("m1"), "", {}, ""};
  const auto first = Enrol(server_, joiner, request);
  const auto second = Enrol(server_, joiner, request);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(first->identity.node, second->identity.node);
}

TEST_F(EnrolmentTest, AFailedEnrolmentLeavesTheTokenUnused) {
  const PeerIdentity joiner = Joiner(NodeLine("m1"), "t");
  hub_.fail_next = true;
  ASSERT_THAT(Enrol(server_, joiner, {Csr("first"), "", {}, ""}), IsError(ErrorCode::kUnavailable));
  ASSERT_FALSE(hub_.fail_next);
  EXPECT_THAT(Enrol(server_, joiner, {Csr("second"), "", {}, ""}), IsOk());
}

TEST_F(EnrolmentTest, ATokenOfAnotherIssuerIsRefused) {
  PeerIdentity joiner = Joiner(NodeLine("m1"), "t");
  joiner.serial = "00ff";  // As of a token that this main never made.
  EXPECT_THAT(Enrol(server_, joiner, {Csr("m1"), "", {}, ""}),
              IsError(ErrorCode::kUnauthenticated));
}

TEST_F(EnrolmentTest, ANodeOfAnUnknownCampusGetsNoToken) {
  PeerIdentity wanted;
  wanted.campus_name = "x";
  wanted.name = "x1";
  const auto line = main_->MakeJoinLine(wanted, kHour);
  ASSERT_THAT(line, IsError(ErrorCode::kNotFound));
  EXPECT_THAT(line.error().message(), testing::HasSubstr("known: main"));
}

TEST_F(EnrolmentTest, TwoCampusesCannotHaveANodeOfOneName) {
  ASSERT_THAT(JoinCampus("a"), IsOk());
  ASSERT_THAT(Enrol(server_, Joiner(NodeLine("n1", "a"), "t"), {Csr("n1"), "", {}, ""}), IsOk());
  PeerIdentity wanted;
  wanted.campus_name = "main";
  wanted.name = "n1";
  EXPECT_THAT(main_->MakeJoinLine(wanted, kHour), IsError(ErrorCode::kExists));
}

class BranchEnrolmentTest : public EnrolmentTest {
 protected:
  void SetUp() override {
    EnrolmentTest::SetUp();
    const auto joined = JoinCampus("a");
    ASSERT_THAT(joined, IsOk());
    upstream_ = std::make_unique<test::TwinClient>(server_, joined->identity);
    branch_ = MakeBranchEnrolment({"", "lab", "a", {"hub-a:7440"}}, *upstream_);
    branch_->AddRoutes(branch_server_);
  }
  std::unique_ptr<test::TwinClient> upstream_;
  test::TwinServer branch_server_;
  std::unique_ptr<Enrolment> branch_;
};

TEST_F(BranchEnrolmentTest, ABranchPassesItsNodesOn) {
  const std::string line = NodeLine("a1", "a");
  EXPECT_EQ(SplitJoinLine(line)->hub_campus, "a");  // The hub that the node will ask.
  const auto answer = Enrol(branch_server_, Joiner(line, "t"), {Csr("a1"), "", {}, ""});
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->identity.name, "a1");
  EXPECT_EQ(answer->hub_addresses, std::vector<std::string>{"hub-a:7440"});
  const auto again = Enrol(branch_server_, Joiner(line, "t2"), {Csr("other"), "", {}, ""});
  EXPECT_THAT(again, IsError(ErrorCode::kUnauthenticated));
}

TEST_F(BranchEnrolmentTest, ABranchRefusesTokensOfOtherCampuses) {
  EXPECT_THAT(Enrol(branch_server_, Joiner(NodeLine("m1"), "t"), {Csr("m1"), "", {}, ""}),
              IsError(ErrorCode::kUnauthenticated));
}

// A hub that lies about who asks gets nothing that its own campus may not have.
TEST_F(BranchEnrolmentTest, MainDoesNotBelieveABranchAboutOtherCampuses) {
  const PeerIdentity joiner = Joiner(NodeLine("m1"), "t");
  auto answer =
      upstream_->Call("POST", "/v1/enroll", Encode(EnrolRequest{Csr("m1"), "", {}, joiner.serial}),
                      Deadline::After(std::chrono::seconds(10)));
  EXPECT_THAT(answer, IsError(ErrorCode::kUnauthenticated));
  EXPECT_THAT(Enrol(server_, joiner, {Csr("m1b"), "", {}, ""}), IsOk());  // Still unused.
}

TEST(JoinLineTest, OnlyWholeLinesAreTaken) {
  const auto parts = SplitJoinLine("  main@quadfs1:abc\n");
  ASSERT_THAT(parts, IsOk());
  EXPECT_EQ(parts->hub_campus, "main");
  EXPECT_EQ(parts->token, "quadfs1:abc");
  for (const char* bad : {"", "\n", "quadfs1:abc", "@x", "main@a b"}) {
    EXPECT_THAT(SplitJoinLine(bad), IsError(ErrorCode::kInvalidArgument)) << bad;
  }
}

}  // namespace
}  // namespace quadfs::daemon
