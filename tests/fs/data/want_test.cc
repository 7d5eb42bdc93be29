#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "fs/data/block_cutter.h"
#include "fs/data/hub_source.h"
#include "fs/data/proto/data.pb.h"
#include "fs/hub/upstream_source.h"
#include "fs/hub/want_broker.h"
#include "tests/support/fs_data_campus.h"

namespace quadfs::fs {
namespace {

using test::Content;
using test::InTime;
using test::IsError;
using test::IsOk;
using test::MakeContent;

constexpr CampusId kA{2};

/// A broker behind a server twin, and a peer that answers as the test says.
class WantTest : public testing::Test {
 protected:
  WantTest() {
    server_.Route("PUT", "/v1/data/", {transport::Role::kNode},
                  [this](transport::Request& request, transport::Response& response) {
                    const WantBroker::Wanted wanted{
                        *cache::ParseObjectName(request.path().substr(9)),
                        std::stoull(request.query("first")), std::stoull(request.query("count"))};
                    auto taken =
                        broker_.TakeBlocks(request, std::stoull(request.query("want")), wanted);
                    if (taken.ok())
                      (void)response.Reply(200, "", "", {});
                    else
                      (void)response.Fail(taken.error());
                  });
    hub_.Connect(kA, NodeId(5), [this](const metadata::Message& message) {
      data::Want want;
      ASSERT_TRUE(want.ParseFromString(message.payload));
      wants_.push_back(want);
      if (on_want_) on_want_(want);
    });
  }
  /// The peer's PUT, in a thread of its own as in life.
  std::future<Result<transport::Answer>> Answer(const data::Want& want, Content body,
                                                uint64_t node = 5) {
    return std::async(std::launch::async, [this, want, body = std::move(body), node] {
      test::TwinClient client(server_, test::PeerOf(kA, NodeId(node)));
      const ObjectId object{InodeId(want.object().inode()), Generation(want.object().generation())};
      size_t at = 0;
      return client.Upload(
          DataTarget(object, want.first(), want.count()) + "&want=" + std::to_string(want.id()),
          body.size(),
          [&](std::span<std::byte> buffer) -> Result<size_t> {
            const size_t piece = std::min(buffer.size(), body.size() - at);
            std::copy_n(body.begin() + static_cast<ptrdiff_t>(at), piece, buffer.begin());
            at += piece;
            return piece;
          },
          InTime(), {});
    });
  }
  Result<void> Fetch(uint64_t count, Deadline deadline = InTime()) {
    return broker_.Fetch({kA, NodeId(5)}, {object_, 0, count}, deadline, {},
                         [this](uint64_t, std::span<const std::byte> block) -> Result<void> {
                           got_.insert(got_.end(), block.begin(), block.end());
                           return sink_error_ ? Result<void>(*sink_error_) : Result<void>();
                         });
  }

  const ObjectId object_{InodeId(9), Generation(1)};
  const Content content_ = MakeContent(2 * kBlockBytes + 50, 1);
  test::TestNamespace names_;
  test::TestHub hub_{kMainCampus, names_};
  WantBroker broker_{{std::chrono::milliseconds(300), std::chrono::milliseconds(300)}, hub_};
  test::TwinServer server_;
  std::vector<data::Want> wants_;
  std::function<void(const data::Want&)> on_want_;
  Content got_;
  std::optional<Error> sink_error_;
};

TEST_F(WantTest, BlocksArriveThroughThePeersOwnPut) {
  std::future<Result<transport::Answer>> put;
  on_want_ = [&](const data::Want& want) { put = Answer(want, content_); };
  ASSERT_THAT(Fetch(3), IsOk());
  EXPECT_EQ(got_, content_);
  EXPECT_THAT(put.get(), IsOk());
}

TEST_F(WantTest, APeerThatIsAbsentSilentOrUnableEndsTheWait) {
  EXPECT_THAT(broker_.Fetch({kA, NodeId(77)}, {object_, 0, 1}, InTime(), {},
                            [](uint64_t, std::span<const std::byte>) { return Result<void>(); }),
              IsError(ErrorCode::kUnavailable));
  EXPECT_THAT(Fetch(1), IsError(ErrorCode::kTimedOut));  // Silent.
  on_want_ = [&](const data::Want& want) {
    EXPECT_THAT(broker_.TakeFailure(test::PeerOf(kA, NodeId(6)), want.id(),
                                    Error(ErrorCode::kIo, "not mine")),
                IsError(ErrorCode::kNotFound));
    EXPECT_THAT(broker_.TakeFailure(test::PeerOf(kA, NodeId(5)), want.id(),
                                    Error(ErrorCode::kNotFound, "gone")),
                IsOk());
  };
  EXPECT_THAT(Fetch(1), IsError(ErrorCode::kNotFound));
  EXPECT_TRUE(got_.empty());
}

TEST_F(WantTest, OnlyThePeerThatWasAskedMayAnswer) {
  std::future<Result<transport::Answer>> wrong, right;
  on_want_ = [&](const data::Want& want) {
    wrong = Answer(want, MakeContent(content_.size(), 99), /*node=*/6);
    wrong.wait();
    right = Answer(want, content_);
  };
  ASSERT_THAT(Fetch(3), IsOk());
  EXPECT_EQ(got_, content_);
  EXPECT_THAT(wrong.get(), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(right.get(), IsOk());
}

TEST_F(WantTest, TooFewBytesOrTooManyAreErrors) {
  std::future<Result<transport::Answer>> put;
  on_want_ = [&](const data::Want& want) { put = Answer(want, MakeContent(kBlockBytes, 1)); };
  EXPECT_THAT(Fetch(3), IsError(ErrorCode::kUnavailable));
  EXPECT_FALSE(put.get().ok());
  on_want_ = [&](const data::Want& want) { put = Answer(want, MakeContent(5 * kBlockBytes, 1)); };
  EXPECT_THAT(Fetch(3), IsError(ErrorCode::kCorruption));
  EXPECT_FALSE(put.get().ok());
}

TEST_F(WantTest, WhatTheSinkRefusesStopsTheSender) {
  sink_error_ = Error(ErrorCode::kCorruption, "does not match");
  std::future<Result<transport::Answer>> put;
  on_want_ = [&](const data::Want& want) { put = Answer(want, content_); };
  EXPECT_THAT(Fetch(3), IsError(ErrorCode::kCorruption));
  EXPECT_THAT(put.get(), IsError(ErrorCode::kCorruption));
}

// The answer to a want that nobody waits for any more goes nowhere.
TEST_F(WantTest, ALateAnswerIsRefused) {
  EXPECT_THAT(Fetch(3), IsError(ErrorCode::kTimedOut));
  ASSERT_EQ(wants_.size(), 1U);
  EXPECT_THAT(Answer(wants_[0], content_).get(), IsError(ErrorCode::kNotFound));
  EXPECT_TRUE(got_.empty());
}

/// A source that gives damaged blocks, or fails.
class BadMain final : public BlockSource {
 public:
  Result<cache::Manifest> FetchManifest(const ObjectId&, Deadline) override { return Gone(); }
  Result<void> FetchBlocks(const ObjectId&, uint64_t first, uint64_t, Deadline,
                           const BlockSink& sink) override {
    ++asked;
    if (gone) return Gone();
    return sink(first, Content(kBlockBytes));
  }
  Result<void> FetchBundle(const std::vector<ObjectId>&, Deadline, const ObjectSink&) override {
    return Gone();
  }
  static Error Gone() { return {ErrorCode::kNotFound, "main has it not"}; }
  int asked = 0;
  bool gone = false;
};

// A node's damaged block: the source goes on with main, and asks the node last for a while.
TEST_F(WantTest, ASourceThatGaveDamageIsAskedLast) {
  const InodeId inode = names_.MakeFile(kRootInode, "f");
  const ObjectId object{inode, Generation(1)};
  names_.Publish(object, cache::Manifest::Of(content_), {kA, NodeId(5), Generation(1), false});
  BadMain main;
  UpstreamSource source(kA, UpstreamSource::Scope::kEverywhere, names_, broker_, &main);
  std::vector<std::future<Result<transport::Answer>>> puts;
  on_want_ = [&](const data::Want& want) {
    puts.push_back(Answer(want, MakeContent(kBlockBytes, 3)));
  };
  const auto sink = [](uint64_t, std::span<const std::byte> block) -> Result<void> {
    if (block[0] == std::byte{0}) return {};
    return Error(ErrorCode::kCorruption, "does not match");
  };
  ASSERT_THAT(source.FetchBlocks(object, 0, 1, InTime(), sink), IsOk());
  EXPECT_EQ(main.asked, 1);
  EXPECT_EQ(puts.size(), 1U);
  ASSERT_THAT(source.FetchBlocks(object, 0, 1, InTime(), sink), IsOk());
  EXPECT_EQ(puts.size(), 1U);  // Main came first this time.
}

}  // namespace
}  // namespace quadfs::fs
