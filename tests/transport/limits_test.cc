// Peers that are slow, greedy or wrong cost the server no more than its bounds.
#include <atomic>
#include <thread>

#include "tests/support/matchers.h"
#include "tests/transport/raw_tls.h"
#include "tests/transport/tls_fixture.h"

namespace quadfs::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using transport::Request;
using transport::Response;
using transport::Role;
using namespace std::chrono_literals;

class LimitsTest : public testing::Test {
 protected:
  void Serve(transport::Server::Options options) {
    options.on_refused = [this](const std::string&, const std::string&) { ++refused_; };
    server_ = cluster_.MakeServer(options);
    server_->Route("GET", "/ok", {Role::kNode},
                   [](Request&, Response& response) { (void)response.Reply(200, "", "fine"); });
    server_->Route("PUT", "/body", {Role::kNode}, [this](Request& request, Response& response) {
      const auto body = request.ReadAll();
      if (!body.ok()) body_error_ = static_cast<int>(body.error().code());
      (void)(body.ok() ? response.Reply(200, "", *body) : response.Fail(body.error()));
    });
    ASSERT_THAT(server_->Start(), IsOk());
  }
  RawTlsClient Raw() { return RawTlsClient(server_->port(), &tls_); }
  /// What the server answers to `text` before it closes.
  std::string AnswerTo(const std::string& text) {
    RawTlsClient client = Raw();
    EXPECT_TRUE(client.Send(text));
    bool closed = false;
    std::string answer = client.ReceiveAll(closed);
    EXPECT_TRUE(closed);
    return answer;
  }

  TestCluster cluster_;
  const transport::TlsFiles tls_ = cluster_.Make(Role::kNode);
  std::atomic<int> refused_{0};
  std::atomic<int> body_error_{0};
  std::unique_ptr<transport::Server> server_;
};

TEST_F(LimitsTest, HeaderThatComesDropByDropIsCutOff) {
  transport::Server::Options options;
  options.handshake = 300ms;
  options.idle = 1h;
  Serve(options);
  RawTlsClient slow = Raw();
  const auto before = std::chrono::steady_clock::now();
  ASSERT_TRUE(slow.Send("GET /ok HTTP/1.1\r\nX-Slow: "));
  // Each byte is progress, but the header as a whole has a limit.
  int drops = 0;
  while (drops < 200 && !slow.AwaitReadable(20ms) && slow.Send("x")) ++drops;
  bool closed = false;
  EXPECT_EQ(slow.ReceiveAll(closed), "");
  EXPECT_TRUE(closed);
  EXPECT_GT(drops, 3);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 3s);
}

TEST_F(LimitsTest, HandshakeThatNeverComesIsCutOff) {
  transport::Server::Options options;
  options.handshake = 200ms;
  options.max_connections = 1;
  Serve(options);
  // Plain TCP that says nothing takes the only place; a real client gets it once that is cut off.
  const UniqueFd silent = ConnectLoopback(server_->port());
  ASSERT_TRUE(silent);
  const auto client = cluster_.MakeClient(*server_);
  const Deadline patience = Soon();
  Result<transport::Answer> answer = client->Call("GET", "/ok", "", Soon());
  EXPECT_THAT(answer, IsError(ErrorCode::kUnavailable));
  while (!answer.ok() && !patience.Passed()) answer = client->Call("GET", "/ok", "", Soon());
  EXPECT_THAT(answer, IsOk());
  EXPECT_GE(refused_, 2);  // The one in excess, and the silent one.
}

TEST_F(LimitsTest, IdleConnectionIsClosedAndTheClientDoesNotNotice) {
  transport::Server::Options options;
  options.idle = 100ms;
  Serve(options);
  RawTlsClient idle = Raw();
  ASSERT_TRUE(idle.Send("GET /ok HTTP/1.1\r\n\r\n"));
  bool closed = false;
  EXPECT_THAT(idle.ReceiveAll(closed), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_TRUE(closed);
  const auto client = cluster_.MakeClient(*server_);
  ASSERT_THAT(client->Call("GET", "/ok", "", Soon()), IsOk());
  RawTlsClient clock = Raw();  // Its own idle time ends after the client's connection's.
  ASSERT_TRUE(clock.Send("GET /ok HTTP/1.1\r\n\r\n"));
  (void)clock.ReceiveAll(closed);
  EXPECT_THAT(client->Call("GET", "/ok", "", Soon()), IsOk());
}

TEST_F(LimitsTest, OversizedHeaderIsRefused) {
  Serve({});
  EXPECT_THAT(AnswerTo("GET /ok HTTP/1.1\r\nX: " + std::string(9000, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(AnswerTo("GET /" + std::string(20000, 'x')), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(AnswerTo("GET /ok HTTP/1.1\r\nConnection: close\r\nX: " + std::string(7000, 'x') +
                       "\r\n\r\n"),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(LimitsTest, OversizedBodyIsRefusedWithoutReadingIt) {
  Serve({});
  EXPECT_THAT(AnswerTo("PUT /body HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nx"),
              StartsWith("HTTP/1.1 413 "));
}

TEST_F(LimitsTest, NonsenseIsRefused) {
  Serve({});
  EXPECT_THAT(AnswerTo("hello\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(AnswerTo("PUT /body HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 411 "));
  EXPECT_THAT(AnswerTo("GET /ok HTTP/1.1\r\nQuad-Deadline-Ms: soon\r\n\r\n"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(AnswerTo("GET /ok HTTP/1.1\r\nConnection: close\r\nQuad-Deadline-Ms: 0\r\n\r\n"),
              StartsWith("HTTP/1.1 504 "));
  EXPECT_THAT(AnswerTo("HEAD /ok HTTP/1.1\r\nConnection: close\r\n\r\n"),
              testing::EndsWith("\r\n\r\n"));
}

// A body that stops coming: the handler is not held longer than the request's deadline.
TEST_F(LimitsTest, BodyThatStallsEndsAtTheDeadline) {
  Serve({});
  const auto before = std::chrono::steady_clock::now();
  const std::string answer =
      AnswerTo("PUT /body HTTP/1.1\r\nContent-Length: 10\r\nQuad-Deadline-Ms: 300\r\n\r\nhalf");
  EXPECT_LT(std::chrono::steady_clock::now() - before, 5s);
  EXPECT_EQ(body_error_, static_cast<int>(ErrorCode::kTimedOut));
}

TEST_F(LimitsTest, PeerThatDoesNotReadIsGivenUp) {
  transport::Server::Options options;
  options.stall = 200ms;
  std::atomic<int> code{0};
  server_ = cluster_.MakeServer(options);
  server_->Route("GET", "/flood", {Role::kNode}, [&code](Request&, Response& response) {
    const std::vector<std::byte> piece(1 << 20);
    (void)response.Start(200, "", std::nullopt);
    for (;;) {
      if (const auto written = response.Write(piece); !written.ok()) {
        code = static_cast<int>(written.error().code());
        return;
      }
    }
  });
  ASSERT_THAT(server_->Start(), IsOk());
  RawTlsClient deaf = Raw();
  ASSERT_TRUE(deaf.Send("GET /flood HTTP/1.1\r\n\r\n"));
  const Deadline patience = Soon();
  while (code == 0 && !patience.Passed()) std::this_thread::yield();
  EXPECT_EQ(code, static_cast<int>(ErrorCode::kTimedOut));
}

// Two requests in one go, and a body in the same record as its header.
TEST_F(LimitsTest, PipelinedRequestsAreServedInOrder) {
  Serve({});
  const std::string answers = AnswerTo(
      "PUT /body HTTP/1.1\r\nContent-Length: 5\r\n\r\nfirst"
      "PUT /body HTTP/1.1\r\nContent-Length: 6\r\n\r\nsecond"
      "GET /ok HTTP/1.1\r\nConnection: close\r\n\r\n");
  const size_t first = answers.find("\r\n\r\nfirst");
  const size_t second = answers.find("\r\n\r\nsecond");
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(second, std::string::npos);
  EXPECT_LT(first, second);
  EXPECT_THAT(answers.substr(second), HasSubstr("fine"));
}

TEST_F(LimitsTest, BodyBehindExpectContinueIsAskedFor) {
  Serve({});
  RawTlsClient client = Raw();
  ASSERT_TRUE(
      client.Send("PUT /body HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n"
                  "Connection: close\r\n\r\n"));
  const std::string asked = "HTTP/1.1 100 Continue\r\n\r\n";
  ASSERT_EQ(client.Receive(asked.size()), asked);
  ASSERT_TRUE(client.Send("late"));
  bool closed = false;
  EXPECT_THAT(client.ReceiveAll(closed), testing::EndsWith("late"));
}

// 200 at once where 100 fit: those beyond are turned away, those within are served, and afterwards
// there is room again.
TEST_F(LimitsTest, ConnectionsAboveTheLimitAreClosedAtOnce) {
  transport::Server::Options options;
  options.max_connections = 100;
  options.handshake = 20s;
  Serve(options);
  {
    std::vector<std::unique_ptr<RawTlsClient>> clients;
    int served = 0;
    for (int i = 0; i < 200; ++i) {
      clients.push_back(std::make_unique<RawTlsClient>(server_->port(), &tls_));
      if (clients.back()->Send("GET /ok HTTP/1.1\r\n\r\n") && !clients.back()->Receive(1).empty()) {
        ++served;
      }
    }
    EXPECT_EQ(served, 100);
    EXPECT_EQ(refused_, 100);
  }
  const auto client = cluster_.MakeClient(*server_);
  const Deadline patience = Soon();
  Result<transport::Answer> answer = Error(ErrorCode::kUnknown, "not called");
  do {
    answer = client->Call("GET", "/ok", "", Soon());
  } while (!answer.ok() && !patience.Passed());
  EXPECT_THAT(answer, IsOk());
}

}  // namespace
}  // namespace quadfs::test
