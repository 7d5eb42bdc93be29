// The twins that other modules' tests build on behave as the real thing does.
#include <thread>

#include "tests/support/matchers.h"
#include "tests/support/transport_twins.h"

namespace quadfs::test {
namespace {

using transport::Client;
using transport::Request;
using transport::Response;
using transport::Role;
using namespace std::chrono_literals;

class TwinsTest : public testing::Test {
 protected:
  void SetUp() override {
    server_.Route("POST", "/count", {Role::kNode}, [this](Request& request, Response& response) {
      ++calls_;
      (void)response.Reply(200, "text/x", *request.ReadAll() + std::to_string(calls_),
                           {{"X-Peer", request.peer().name}});
    });
    server_.Route("GET", "/bytes", {Role::kNode}, [](Request&, Response& response) {
      (void)response.Start(200, "", std::nullopt);
      const std::vector<std::byte> piece(100);
      for (int i = 0; i < 10; ++i) {
        if (!response.Write(piece).ok()) return;
      }
    });
    server_.Route("GET", "/beat", {Role::kNode}, [](Request&, Response& response) {
      (void)response.Start(200, "", std::nullopt);
      const std::vector<std::byte> beat(1);
      while (!response.Ended() && response.Write(beat).ok()) {
      }
    });
    server_.Route("PUT", "/put/", {Role::kNode}, [this](Request& request, Response& response) {
      const auto body = request.ReadAll();
      if (!body.ok()) return (void)response.Fail(body.error());
      received_.push_back(*body);
      (void)response.Reply(204, "", "");
    });
    server_.Route("GET", "/hub", {Role::kHub}, [](Request&, Response&) {});
    server_.Route("GET", "/stale", {Role::kNode}, [](Request&, Response& response) {
      (void)response.Fail(Error(ErrorCode::kStale, "old"));
    });
  }
  static transport::PeerIdentity Peer() {
    transport::PeerIdentity peer;
    peer.name = "a1";
    return peer;
  }
  static Deadline Soon() { return Deadline::After(10s); }
  Result<transport::Answer> Count() { return faulty_.Call("POST", "/count", "n", Soon()); }
  Client::Sink Counting() {
    return [this](std::span<const std::byte> bytes) {
      bytes_ += bytes.size();
      return Result<void>();
    };
  }
  static Client::Source Text(std::string text) {
    return [text = std::move(text),
            at = size_t{0}](std::span<std::byte> buffer) mutable -> Result<size_t> {
      const size_t size = std::min(buffer.size(), text.size() - at);
      std::memcpy(buffer.data(), text.data() + at, size);
      at += size;
      return size;
    };
  }

  TwinServer server_;
  TwinClient client_{server_, Peer()};
  FaultyClient faulty_{client_};
  int calls_ = 0;
  uint64_t bytes_ = 0;
  std::vector<std::string> received_;
};

TEST_F(TwinsTest, CallsReachTheHandler) {
  const auto answer = Count();
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->body, "n1");
  EXPECT_EQ(answer->headers.at("x-peer"), "a1");
  EXPECT_THAT(client_.Call("GET", "/hub", "", Soon(), {}), IsError(ErrorCode::kUnauthenticated));
  EXPECT_THAT(client_.Call("GET", "/none", "", Soon(), {}), IsError(ErrorCode::kNotSupported));
  EXPECT_THAT(client_.Call("GET", "/stale", "", Soon(), {}), IsError(ErrorCode::kStale));
  ASSERT_THAT(faulty_.Upload("/put/x", 5, Text("hello"), Soon(), {}), IsOk());
  EXPECT_EQ(received_.back(), "hello");
  EXPECT_THAT(faulty_.Upload("/put/x", 6, Text("hello"), Soon(), {}),
              IsError(ErrorCode::kInvalidArgument));
  server_.Stop();
  EXPECT_THAT(Count(), IsError(ErrorCode::kUnavailable));
}

TEST_F(TwinsTest, FollowEndsByStopSilenceAndServer) {
  std::stop_source stop;
  EXPECT_THAT(faulty_.Follow("/beat", 5s, stop.get_token(),
                             [&](std::span<const std::byte>) {
                               stop.request_stop();
                               return Result<void>();
                             },
                             {}),
              IsOk());
  EXPECT_THAT(faulty_.Follow("/bytes", 5s, {}, Counting(), {}), IsError(ErrorCode::kUnavailable));
  EXPECT_EQ(bytes_, 1000U);
  server_.Route("GET", "/quiet", {Role::kNode}, [](Request&, Response& response) {
    (void)response.Start(200, "", std::nullopt);
    while (!response.Ended()) std::this_thread::yield();
  });
  EXPECT_THAT(faulty_.Follow("/quiet", 20ms, {}, Counting(), {}), IsError(ErrorCode::kTimedOut));
}

TEST_F(TwinsTest, DroppedCallHasNoEffectAndALostAnswerHas) {
  faulty_.DropNext();
  EXPECT_THAT(Count(), IsError(ErrorCode::kUnavailable));
  EXPECT_EQ(calls_, 0);
  faulty_.LoseAnswerNext("/count");
  EXPECT_THAT(faulty_.Download("GET", "/bytes", "", Soon(), Counting(), {}), IsOk());
  EXPECT_THAT(Count(), IsError(ErrorCode::kTimedOut));
  EXPECT_EQ(calls_, 1);
  EXPECT_EQ(faulty_.faults_fired(), 2U);
}

TEST_F(TwinsTest, DuplicatesArriveTwice) {
  faulty_.DuplicateNext();
  EXPECT_EQ(Count()->body, "n2");
  faulty_.DuplicateNext();
  ASSERT_THAT(faulty_.Upload("/put/x", 5, Text("hello"), Soon(), {}), IsOk());
  EXPECT_THAT(received_, testing::ElementsAre("hello", "hello"));
}

TEST_F(TwinsTest, DownloadIsCutWhereItWasOrdered) {
  faulty_.CutAfter(250);
  EXPECT_THAT(faulty_.Download("GET", "/bytes", "", Soon(), Counting(), {}),
              IsError(ErrorCode::kUnavailable));
  EXPECT_EQ(bytes_, 250U);
}

TEST_F(TwinsTest, HeldCallGoesOnWhenReleased) {
  faulty_.HoldNext();
  std::jthread caller([this] { EXPECT_THAT(Count(), IsOk()); });
  ASSERT_TRUE(faulty_.AwaitHeld());
  EXPECT_EQ(calls_, 0);
  faulty_.Release();
  caller.join();
  EXPECT_EQ(calls_, 1);
  faulty_.HoldNext();
  EXPECT_THAT(faulty_.Call("POST", "/count", "", Deadline::After(20ms), {}),
              IsError(ErrorCode::kTimedOut));
  EXPECT_EQ(calls_, 1);
}

TEST_F(TwinsTest, CutLineFailsCallsAndBreaksStreamsUntilHealed) {
  EXPECT_THAT(faulty_.Follow("/beat", 5s, {},
                             [this](std::span<const std::byte>) {
                               if (++bytes_ == 3) faulty_.Cut();
                               return Result<void>();
                             },
                             {}),
              IsError(ErrorCode::kUnavailable));
  EXPECT_EQ(bytes_, 3U);
  EXPECT_THAT(Count(), IsError(ErrorCode::kUnavailable));
  EXPECT_EQ(calls_, 0);
  faulty_.Heal();
  EXPECT_THAT(Count(), IsOk());
}

}  // namespace
}  // namespace quadfs::test
