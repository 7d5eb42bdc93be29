// Calls over real TLS on the loopback: what arrives, who may call, what errors become.
#include <atomic>
#include <thread>

#include "tests/support/matchers.h"
#include "tests/transport/raw_tls.h"
#include "tests/transport/tls_fixture.h"

namespace quadfs::test {
namespace {

using testing::HasSubstr;
using transport::Answer;
using transport::Request;
using transport::Response;
using transport::Role;

class CallsTest : public testing::Test {
 protected:
  void Serve() { ASSERT_THAT(server_->Start(), IsOk()); }
  Result<Answer> Get(const std::string& target) { return client_->Call("GET", target, {}, Soon()); }

  TestCluster cluster_;
  std::unique_ptr<transport::Server> server_ = cluster_.MakeServer();
  std::unique_ptr<transport::Client> client_ = cluster_.MakeClient(*server_);
};

TEST_F(CallsTest, RequestAndAnswerArriveWhole) {
  server_->Route("POST", "/v1/echo/", {Role::kNode}, [](Request& request, Response& response) {
    const auto body = request.ReadAll();
    (void)response.Reply(201, "text/x",
                         *body + "|" + request.path() + "|" + request.query("q") + "|" +
                             request.header("x-one") + "|" + request.peer().name + "|" +
                             std::to_string(request.peer().node.value),
                         {{"X-Two", "second"}});
  });
  Serve();
  for (int i = 0; i < 3; ++i) {  // Over one kept-alive connection.
    const auto answer = client_->Call("POST", "/v1/echo/a%20b?q=1%2B1", "body", Soon(),
                                      {{"X-One", "first"}, {"X-Empty", ""}});
    ASSERT_THAT(answer, IsOk());
    EXPECT_EQ(answer->status, 201);
    EXPECT_EQ(answer->body, "body|/v1/echo/a b|1+1|first|a1|7");
    EXPECT_EQ(answer->headers.at("x-two"), "second");
    EXPECT_EQ(answer->headers.at("content-type"), "text/x");
  }
}

TEST_F(CallsTest, EmptyBodiesAndLargeOnesKeepTheConnectionInStep) {
  server_->Route("POST", "/size", {Role::kNode}, [](Request& request, Response& response) {
    const auto body = request.ReadAll();
    (void)response.Reply(200, "", body.ok() ? std::to_string(body->size()) : "failed");
  });
  Serve();
  for (const size_t size : {0UL, 1UL, 16383UL, 16384UL, 16385UL, 1UL << 20, 16UL << 20, 0UL}) {
    const auto answer = client_->Call("POST", "/size", Pattern(size, size), Soon());
    ASSERT_THAT(answer, IsOk()) << size;
    EXPECT_EQ(answer->body, std::to_string(size));
  }
}

// A handler that does not look at the body must not spoil the next request.
TEST_F(CallsTest, UnreadBodyIsSkipped) {
  server_->Route("POST", "/ignore", {Role::kNode},
                 [](Request&, Response& response) { (void)response.Reply(200, "", "ok"); });
  Serve();
  for (const size_t size : {100UL, 100'000UL, 8UL << 20}) {
    EXPECT_THAT(client_->Call("POST", "/ignore", Pattern(size, 1), Soon()), IsOk()) << size;
    EXPECT_THAT(client_->Call("POST", "/ignore", {}, Soon()), IsOk()) << size;
  }
}

TEST_F(CallsTest, ErrorsKeepTheirCodeAndMessage) {
  server_->Route("GET", "/fail/", {Role::kNode}, [](Request& request, Response& response) {
    const auto number = static_cast<uint32_t>(std::stoul(request.path().substr(6)));
    (void)response.Fail(Error(ErrorCodeFromNumber(number), "detail " + std::to_string(number)));
  });
  Serve();
  for (uint32_t number = 1; number <= 29; ++number) {
    const auto answer = Get("/fail/" + std::to_string(number));
    ASSERT_THAT(answer, IsError(ErrorCodeFromNumber(number)));
    EXPECT_EQ(answer.error().message(), "detail " + std::to_string(number));
  }
}

TEST_F(CallsTest, HandlersThatThrowOrSayNothingBecomeErrors) {
  server_->Route("GET", "/throw", {Role::kNode},
                 [](Request&, Response&) { throw std::runtime_error("broken"); });
  server_->Route("GET", "/throw-int", {Role::kNode}, [](Request&, Response&) { throw 7; });
  server_->Route("GET", "/silent", {Role::kNode}, [](Request&, Response&) {});
  server_->Route("GET", "/ok", {Role::kNode},
                 [](Request&, Response& response) { (void)response.Reply(200, "", "fine"); });
  Serve();
  const auto thrown = Get("/throw");
  ASSERT_THAT(thrown, IsError(ErrorCode::kUnknown));
  EXPECT_THAT(thrown.error().message(), HasSubstr("broken"));
  EXPECT_THAT(Get("/throw-int"), IsError(ErrorCode::kUnknown));
  EXPECT_THAT(Get("/silent"), IsError(ErrorCode::kUnknown));
  EXPECT_THAT(Get("/ok"), IsOk());
}

TEST_F(CallsTest, UnknownPathsMethodsAndForbiddenRoles) {
  const auto ok = [](Request& request, Response& response) {
    (void)response.Reply(200, "", request.path());
  };
  server_->Route("GET", "/all/", {Role::kNode}, ok);
  server_->Route("GET", "/all/hub/", {Role::kHub}, ok);
  server_->Route("GET", "/all/exact", {Role::kNode}, ok);
  server_->Route("POST", "/v1/enroll", {Role::kJoin}, ok);
  Serve();
  EXPECT_EQ(Get("/all/x")->body, "/all/x");
  EXPECT_EQ(Get("/all/exact")->body, "/all/exact");
  EXPECT_THAT(Get("/all/hub/x"), IsError(ErrorCode::kUnauthenticated));
  EXPECT_THAT(Get("/none"), IsError(ErrorCode::kNotSupported));
  EXPECT_THAT(client_->Call("POST", "/all/x", "", Soon()), IsError(ErrorCode::kNotSupported));
  EXPECT_THAT(client_->Call("POST", "/v1/enroll", "", Soon()),
              IsError(ErrorCode::kUnauthenticated));

  const std::vector<std::string> here = {LoopbackAddress(server_->port())};
  const auto hub = cluster_.MakeClient(here, cluster_.Make(Role::kHub));
  EXPECT_THAT(hub->Call("GET", "/all/hub/x", "", Soon()), IsOk());
  const auto joiner = cluster_.MakeClient(here, cluster_.Make(Role::kJoin));
  EXPECT_THAT(joiner->Call("POST", "/v1/enroll", "", Soon()), IsOk());
  EXPECT_THAT(joiner->Call("GET", "/all/x", "", Soon()), IsError(ErrorCode::kUnauthenticated));
}

// The caller is back at its deadline, whatever the handler does; the handler was told the deadline.
TEST_F(CallsTest, HandlerThatNeverAnswersEndsAtTheDeadline) {
  std::atomic<int64_t> told_ms{0};
  std::atomic<bool> release{false};
  server_->Route("POST", "/never", {Role::kNode}, [&](Request& request, Response& response) {
    told_ms = request.deadline().Left().count();
    while (!release && !response.Ended()) std::this_thread::yield();
  });
  Serve();
  const auto before = std::chrono::steady_clock::now();
  const auto answer =
      client_->Call("POST", "/never", "", Deadline::After(std::chrono::milliseconds(300)));
  const auto took = std::chrono::steady_clock::now() - before;
  release = true;
  EXPECT_THAT(answer, IsError(ErrorCode::kTimedOut));
  EXPECT_GE(took, std::chrono::milliseconds(290));
  EXPECT_LT(took, std::chrono::seconds(3));
  EXPECT_GT(told_ms, 0);
  EXPECT_LE(told_ms, 300);
  EXPECT_THAT(client_->Call("POST", "/never", "", Deadline(Clock::TimePoint())),
              IsError(ErrorCode::kTimedOut));
  server_->Stop();  // Its handlers use what stands on this stack.
}

TEST_F(CallsTest, WrongArgumentsAreTheCallersMistake) {
  Serve();
  EXPECT_THAT(Get("no-slash"), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(Get("/a b"), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(Get("/a\r\nX: y"), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(client_->Call("GET", "/", "", Soon(), {{"X", "a\r\nY: b"}}),
              IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(client_->Call("POST", "/", std::string((16U << 20) + 1, 'x'), Soon()),
              IsError(ErrorCode::kTooLarge));
}

TEST_F(CallsTest, AnswersAndBodiesAboveTheirBoundAreRefused) {
  server_->Route("GET", "/huge", {Role::kNode}, [](Request&, Response& response) {
    (void)response.Reply(200, "", std::string((16U << 20) + 1, 'x'));
  });
  server_->Route("POST", "/small", {Role::kNode}, [](Request& request, Response& response) {
    const auto body = request.ReadAll(1000);
    (void)(body.ok() ? response.Reply(200, "", "") : response.Fail(body.error()));
  });
  Serve();
  EXPECT_THAT(Get("/huge"), IsError(ErrorCode::kTooLarge));
  EXPECT_THAT(client_->Call("POST", "/small", std::string(1000, 'x'), Soon()), IsOk());
  for (const size_t size : {1001UL, 12UL << 20}) {
    EXPECT_THAT(client_->Call("POST", "/small", std::string(size, 'x'), Soon()),
                IsError(ErrorCode::kTooLarge))
        << size;
  }
}

// Many callers share one client; connections are kept and no more are opened than callers.
TEST_F(CallsTest, ConcurrentCallersGetTheirOwnAnswers) {
  server_->Route("POST", "/echo", {Role::kNode}, [](Request& request, Response& response) {
    (void)response.Reply(200, "", *request.ReadAll());
  });
  Serve();
  std::atomic<int> right{0};
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < 16; ++caller) {
    callers.emplace_back([this, caller, &right] {
      for (int i = 0; i < 25; ++i) {
        const std::string body = std::to_string(caller) + "." + std::to_string(i);
        const auto answer = client_->Call("POST", "/echo", body, Soon());
        if (answer.ok() && answer->body == body) ++right;
      }
    });
  }
  callers.clear();
  EXPECT_EQ(right, 16 * 25);
}

TEST_F(CallsTest, DeadFirstAddressIsPassedOverAndRemembered) {
  server_->Route("GET", "/ok", {Role::kNode},
                 [](Request&, Response& response) { (void)response.Reply(200, "", "fine"); });
  Serve();
  const std::string dead = LoopbackAddress(ClosedPort());
  const auto client =
      cluster_.MakeClient({"no-such-host.invalid:7440", dead, LoopbackAddress(server_->port())},
                          cluster_.Make(Role::kNode));
  EXPECT_THAT(client->Call("GET", "/ok", "", Soon()), IsOk());
  EXPECT_THAT(client->Call("GET", "/ok", "", Soon()), IsOk());
  client->Reset();
  EXPECT_THAT(client->Call("GET", "/ok", "", Soon()), IsOk());
}

TEST_F(CallsTest, WhenNobodyAnswersEachAddressIsNamedWithItsReason) {
  const std::string dead = LoopbackAddress(ClosedPort());
  const auto client =
      cluster_.MakeClient({"no-such-host.invalid:7440", dead}, cluster_.Make(Role::kNode));
  for (int i = 0; i < 2; ++i) {  // The second is within the back-off: same words, at once.
    const auto answer = client->Call("GET", "/ok", "", Soon());
    ASSERT_THAT(answer, IsError(ErrorCode::kUnavailable));
    EXPECT_THAT(answer.error().message(), HasSubstr("hub.a.c1.quadfs cannot be reached"));
    EXPECT_THAT(answer.error().message(),
                HasSubstr("no-such-host.invalid:7440: could not resolve the name"));
    EXPECT_THAT(answer.error().message(), HasSubstr(dead + ": connection refused"));
  }
}

// Whoever answers at the first address is a hub of the cluster, but not ours.
TEST_F(CallsTest, AnotherHubAtAnAddressIsPassedOver) {
  server_->Route("GET", "/ok", {Role::kNode},
                 [](Request&, Response& response) { (void)response.Reply(200, "", "right"); });
  Serve();
  transport::Server::Options options;
  options.address = "127.0.0.1:0";
  const auto hour = std::chrono::hours(1);
  auto other = transport::Server::Create(options, cluster_.Make(Role::kHub, -hour, hour, "b"));
  ASSERT_THAT(other, IsOk());
  std::atomic<int> wrong_calls{0};
  (*other)->Route("GET", "/ok", {Role::kNode},
                  [&wrong_calls](Request&, Response&) { ++wrong_calls; });
  ASSERT_THAT((*other)->Start(), IsOk());
  const std::string wrong = LoopbackAddress((*other)->port());
  const auto tls = cluster_.Make(Role::kNode);
  EXPECT_EQ(cluster_.MakeClient({wrong, LoopbackAddress(server_->port())}, tls)
                ->Call("GET", "/ok", "", Soon())
                ->body,
            "right");
  const auto refused = cluster_.MakeClient({wrong}, tls)->Call("GET", "/ok", "", Soon());
  ASSERT_THAT(refused, IsError(ErrorCode::kUnavailable));
  EXPECT_THAT(refused.error().message(),
              HasSubstr(wrong + ": answers but is not hub.a.c1.quadfs: wrong address or DNS?"));
  EXPECT_EQ(wrong_calls, 0);
}

// A hub that restarts: kept-alive connections are dead, and calls work again.
TEST_F(CallsTest, CallsGoOnAfterTheHubRestarts) {
  const auto serve_ok = [](transport::Server& server) {
    server.Route("POST", "/ok", {Role::kNode},
                 [](Request&, Response& response) { (void)response.Reply(200, "", "fine"); });
    return server.Start();
  };
  ASSERT_THAT(serve_ok(*server_), IsOk());
  ASSERT_THAT(client_->Call("POST", "/ok", "", Soon()), IsOk());
  transport::Server::Options options;
  options.address = LoopbackAddress(server_->port());
  server_->Stop();
  auto again = transport::Server::Create(options, cluster_.Make(Role::kHub));
  ASSERT_THAT(again, IsOk());
  ASSERT_THAT(serve_ok(**again), IsOk());
  EXPECT_THAT(client_->Call("POST", "/ok", "", Soon()), IsOk());
}

// The connection breaks after the request was sent: of a change nobody knows the outcome.
TEST_F(CallsTest, LostAnswerIsAnUnknownOutcomeOnlyForChanges) {
  RawTlsServer broken(cluster_.Make(Role::kHub), "");
  const auto client =
      cluster_.MakeClient({LoopbackAddress(broken.port())}, cluster_.Make(Role::kNode));
  EXPECT_THAT(client->Call("POST", "/ops", "x", Soon()), IsError(ErrorCode::kTimedOut));
  EXPECT_THAT(client->Call("GET", "/log", "", Soon()), IsError(ErrorCode::kUnavailable));
  EXPECT_EQ(broken.requests(), 2);
}

TEST_F(CallsTest, CreateRefusesWhatCannotWork) {
  transport::Client::Options options;
  options.server_name = cluster_.hub_name();
  const auto tls = cluster_.Make(Role::kNode);
  EXPECT_THAT(transport::Client::Create(options, tls), IsError(ErrorCode::kInvalidArgument));
  options.addresses = {"no-port"};
  EXPECT_THAT(transport::Client::Create(options, tls), IsError(ErrorCode::kInvalidArgument));
  options.addresses = {"ok:1"};
  auto bad = tls;
  bad.key = "/nonexistent";
  EXPECT_THAT(transport::Client::Create(options, bad), IsError(ErrorCode::kInvalidArgument));
  transport::Server::Options serving;
  serving.address = "127.0.0.1:0";
  EXPECT_THAT(transport::Server::Create(serving, tls), IsError(ErrorCode::kInvalidArgument))
      << "a node's certificate cannot serve";
  serving.address = LoopbackAddress(server_->port());
  const auto taken = transport::Server::Create(serving, cluster_.Make(Role::kHub));
  ASSERT_THAT(taken, IsError(ErrorCode::kUnavailable));
  EXPECT_THAT(taken.error().message(), HasSubstr("is another quadfsd running?"));
}

}  // namespace
}  // namespace quadfs::test
