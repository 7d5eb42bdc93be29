// Bulk and endless transfers over real TLS on the loopback.
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/support/matchers.h"
#include "tests/transport/raw_tls.h"
#include "tests/transport/tls_fixture.h"
#include "transport/base/checksum.h"
#include "transport/frame.h"

namespace quadfs::test {
namespace {

using transport::Client;
using transport::Request;
using transport::Response;
using transport::Role;
using namespace std::chrono_literals;

constexpr size_t kBulkBytes = size_t{64} << 20;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class StreamsTest : public testing::Test {
 protected:
  void Serve() { ASSERT_THAT(server_->Start(), IsOk()); }

  static Client::Sink Into(std::string& out) {
    return [&out](std::span<const std::byte> bytes) {
      out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return Result<void>();
    };
  }

  TestCluster cluster_;
  std::unique_ptr<transport::Server> server_ = cluster_.MakeServer();
  std::unique_ptr<transport::Client> client_ = cluster_.MakeClient(*server_);
};

TEST_F(StreamsTest, DownloadOf64MiBIsIdentical) {
  const std::string content = Pattern(kBulkBytes, 1);
  server_->Route("GET", "/sized", {Role::kNode}, [&](Request&, Response& response) {
    (void)response.Start(200, "application/octet-stream", content.size());
    for (size_t at = 0; at < content.size(); at += 1U << 20) {
      (void)response.Write(Bytes(content).subspan(at, 1U << 20));
    }
  });
  server_->Route("POST", "/chunked", {Role::kNode}, [&](Request& request, Response& response) {
    EXPECT_EQ(*request.ReadAll(), "which");
    (void)response.Start(200, "application/octet-stream", std::nullopt);
    for (size_t at = 0; at < content.size();) {  // Odd sizes on both sides of every bound.
      const size_t size = std::min(content.size() - at, at % 3 == 0 ? 300'001UL : 16'385UL);
      (void)response.Write(Bytes(content).subspan(at, size));
      at += size;
    }
  });
  Serve();
  std::string sized;
  std::string chunked;
  ASSERT_THAT(client_->Download("GET", "/sized", "", Soon(), Into(sized)), IsOk());
  ASSERT_THAT(client_->Download("POST", "/chunked", "which", Soon(), Into(chunked)), IsOk());
  EXPECT_TRUE(sized == content);
  EXPECT_TRUE(chunked == content);
}

TEST_F(StreamsTest, UploadOf64MiBIsIdentical) {
  const std::string content = Pattern(kBulkBytes, 2);
  std::string received;
  server_->Route("PUT", "/v1/data/", {Role::kNode}, [&](Request& request, Response& response) {
    EXPECT_EQ(request.body_bytes(), content.size());
    std::vector<std::byte> buffer(1U << 20);
    for (;;) {
      const auto got = request.ReadBody(buffer);
      if (!got.ok()) return (void)response.Fail(got.error());
      if (*got == 0) break;
      received.append(reinterpret_cast<const char*>(buffer.data()), *got);
    }
    (void)response.Reply(204, "", "");
  });
  Serve();
  size_t at = 0;
  const auto answer = client_->Upload(
      "/v1/data/1.2", content.size(),
      [&](std::span<std::byte> buffer) -> Result<size_t> {
        const size_t size = std::min(buffer.size(), content.size() - at);
        std::memcpy(buffer.data(), content.data() + at, size);
        at += size;
        return size;
      },
      Soon());
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->status, 204);
  EXPECT_TRUE(received == content);
}

TEST_F(StreamsTest, UploadThatIsRefusedEndsEarly) {
  server_->Route("PUT", "/full", {Role::kNode}, [](Request&, Response& response) {
    (void)response.Fail(Error(ErrorCode::kNoSpace, "the store is full"));
  });
  Serve();
  const auto answer = client_->Upload(
      "/full", uint64_t{1} << 40,
      [](std::span<std::byte> buffer) -> Result<size_t> { return buffer.size(); }, Soon());
  EXPECT_THAT(answer, IsError(ErrorCode::kNoSpace));
}

TEST_F(StreamsTest, ErrorsOfSourceAndSinkComeBack) {
  server_->Route("PUT", "/put", {Role::kNode}, [](Request& request, Response& response) {
    (void)request.ReadAll();
    (void)response.Reply(200, "", "");
  });
  server_->Route("GET", "/get", {Role::kNode}, [](Request&, Response& response) {
    (void)response.Reply(200, "", std::string(1 << 20, 'x'));
  });
  Serve();
  const auto failing = client_->Upload(
      "/put", 100,
      [](std::span<std::byte>) -> Result<size_t> { return Error(ErrorCode::kIo, "disk"); }, Soon());
  EXPECT_THAT(failing, IsError(ErrorCode::kIo));
  const auto ended = client_->Upload(
      "/put", 100, [](std::span<std::byte>) -> Result<size_t> { return size_t{0}; }, Soon());
  EXPECT_THAT(ended, IsError(ErrorCode::kInvalidArgument));
  const auto full =
      client_->Download("GET", "/get", "", Soon(), [](std::span<const std::byte>) -> Result<void> {
        return Error(ErrorCode::kNoSpace, "full");
      });
  EXPECT_THAT(full, IsError(ErrorCode::kNoSpace));
}

// The body of an error must not be taken for data.
TEST_F(StreamsTest, SinkSeesNothingOfAnError) {
  server_->Route("GET", "/gone", {Role::kNode}, [](Request&, Response& response) {
    (void)response.Fail(Error(ErrorCode::kStale, "another generation"));
  });
  Serve();
  std::string seen;
  const auto answer = client_->Download("GET", "/gone", "", Soon(), Into(seen));
  ASSERT_THAT(answer, IsError(ErrorCode::kStale));
  EXPECT_EQ(answer.error().message(), "another generation");
  EXPECT_EQ(seen, "");
}

// Half an answer is an error, however the handler gave up.
TEST_F(StreamsTest, AnswersThatBreakOffAreErrors) {
  const auto part = [](Response& response, std::optional<uint64_t> body_bytes) {
    (void)response.Start(200, "", body_bytes);
    (void)response.Write(Bytes("some of it"));
  };
  server_->Route("GET", "/short", {Role::kNode},
                 [part](Request&, Response& response) { part(response, 1000); });
  server_->Route("GET", "/throw", {Role::kNode}, [part](Request&, Response& response) {
    part(response, std::nullopt);
    throw std::runtime_error("disk");
  });
  server_->Route("GET", "/fail", {Role::kNode}, [part](Request&, Response& response) {
    part(response, std::nullopt);
    (void)response.Fail(Error(ErrorCode::kCorruption, "bad block"));
  });
  server_->Route("GET", "/long", {Role::kNode}, [](Request&, Response& response) {
    (void)response.Start(200, "", 3);
    EXPECT_THAT(response.Write(Bytes("four")), IsError(ErrorCode::kInvalidArgument));
  });
  Serve();
  for (const char* target : {"/short", "/throw", "/fail", "/long"}) {
    std::string seen;
    EXPECT_THAT(client_->Download("GET", target, "", Soon(), Into(seen)),
                IsError(ErrorCode::kUnavailable))
        << target;
  }
}

TEST_F(StreamsTest, FollowDeliversFramesAtOnceUntilStopped) {
  server_->Route("GET", "/v1/log", {Role::kNode}, [](Request& request, Response& response) {
    EXPECT_EQ(request.header("quad-deadline-ms"), "");
    (void)response.Start(200, "application/octet-stream", std::nullopt);
    for (int i = 0; !response.Ended(); ++i) {
      std::string frame;
      transport::AppendFrame(frame, 5, request.query("from") + "+" + std::to_string(i));
      if (!response.Write(Bytes(frame)).ok()) return;
    }
  });
  Serve();
  std::stop_source stop;
  transport::FrameReader reader;
  std::vector<std::string> seen;
  const auto followed = client_->Follow(
      "/v1/log?from=7", 5s, stop.get_token(), [&](std::span<const std::byte> bytes) {
        return reader.Feed(bytes, [&](const transport::Frame& frame) {
          if (seen.size() < 100) seen.push_back(frame.payload);
          if (seen.size() == 100) stop.request_stop();
          return Result<void>();
        });
      });
  EXPECT_THAT(followed, IsOk());
  ASSERT_EQ(seen.size(), 100U);
  EXPECT_EQ(seen[0], "7+0");
  EXPECT_EQ(seen[99], "7+99");
}

// A stream that is silent at the moment of the stop: the follower comes back all the same, and the
// handler notices that its peer has gone.
TEST_F(StreamsTest, StopEndsASilentStreamQuicklyAndTheHandlerSeesIt) {
  std::atomic<bool> streaming{false};
  std::atomic<bool> handler_left{false};
  server_->Route("GET", "/quiet", {Role::kNode}, [&](Request&, Response& response) {
    (void)response.Start(200, "", std::nullopt);
    (void)response.Write(Bytes("x"));
    while (!response.Ended()) std::this_thread::yield();
    handler_left = true;
  });
  Serve();
  std::stop_source stop;
  Clock::TimePoint stopped;
  std::jthread stopper([&] {
    while (!streaming) std::this_thread::yield();
    stopped = std::chrono::steady_clock::now();
    stop.request_stop();
  });
  EXPECT_THAT(client_->Follow("/quiet", 1min, stop.get_token(),
                              [&](std::span<const std::byte>) {
                                streaming = true;
                                return Result<void>();
                              }),
              IsOk());
  EXPECT_LT(std::chrono::steady_clock::now() - stopped, 1s);
  const Deadline patience = Soon();
  while (!handler_left && !patience.Passed()) std::this_thread::yield();
  EXPECT_TRUE(handler_left);
}

TEST_F(StreamsTest, FollowEndsWhenTheStreamFallsSilent) {
  server_->Route("GET", "/quiet", {Role::kNode}, [](Request&, Response& response) {
    (void)response.Start(200, "", std::nullopt);
    (void)response.Write(Bytes("x"));
    while (!response.Ended()) std::this_thread::yield();
  });
  Serve();
  std::string seen;
  EXPECT_THAT(client_->Follow("/quiet", 300ms, std::stop_token(), Into(seen)),
              IsError(ErrorCode::kTimedOut));
  EXPECT_EQ(seen, "x");
}

TEST_F(StreamsTest, FollowReportsHowTheStreamEnded) {
  server_->Route("GET", "/ends", {Role::kNode}, [](Request&, Response& response) {
    (void)response.Start(200, "", std::nullopt);
    (void)response.Write(Bytes("last"));
  });
  server_->Route("GET", "/other-history", {Role::kNode}, [](Request&, Response& response) {
    (void)response.Fail(Error(ErrorCode::kStale, "another history"));
  });
  Serve();
  std::string seen;
  EXPECT_THAT(client_->Follow("/ends", 5s, {}, Into(seen)), IsError(ErrorCode::kUnavailable));
  EXPECT_EQ(seen, "last");
  EXPECT_THAT(client_->Follow("/other-history", 5s, {}, Into(seen)), IsError(ErrorCode::kStale));
  EXPECT_THAT(client_->Follow("/ends", 5s, {},
                              [](std::span<const std::byte>) -> Result<void> {
                                return Error(ErrorCode::kCorruption, "bad frame");
                              }),
              IsError(ErrorCode::kCorruption));
  server_->Stop();
  EXPECT_THAT(client_->Follow("/ends", 5s, {}, Into(seen)), IsError(ErrorCode::kUnavailable));
}

// Stop while streams are open, one of them blocked in Write because its peer does not read: it
// returns soon, and a stream that it broke off does not look complete.
TEST_F(StreamsTest, StopWithOpenStreamsReturnsQuickly) {
  std::atomic<int> open{0};
  server_->Route("GET", "/flood", {Role::kNode}, [&](Request&, Response& response) {
    const std::string piece(1 << 20, 'x');
    (void)response.Start(200, "", std::nullopt);
    ++open;
    while (!response.Ended() && response.Write(Bytes(piece)).ok()) {
    }
  });
  server_->Route("GET", "/beat", {Role::kNode}, [&](Request&, Response& response) {
    (void)response.Start(200, "", std::nullopt);
    (void)response.Write(Bytes("beat"));
    ++open;
    while (!response.Ended()) std::this_thread::yield();
  });
  Serve();
  const auto tls = cluster_.Make(Role::kNode);
  RawTlsClient deaf(server_->port(), &tls);
  ASSERT_TRUE(deaf.Send("GET /flood HTTP/1.1\r\n\r\n"));
  std::string seen;
  Result<transport::Answer> download = Error(ErrorCode::kUnknown, "not run");
  std::jthread reader(
      [&] { download = client_->Download("GET", "/beat", "", Soon(), Into(seen)); });
  const Deadline patience = Soon();
  while (open < 2 && !patience.Passed()) std::this_thread::yield();
  ASSERT_EQ(open, 2);
  const auto before = std::chrono::steady_clock::now();
  server_->Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 3s);
  reader.join();
  EXPECT_THAT(download, IsError(ErrorCode::kUnavailable));
  EXPECT_EQ(seen, "beat");
}

}  // namespace
}  // namespace quadfs::test
