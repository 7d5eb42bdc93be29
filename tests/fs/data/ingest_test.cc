#include <gtest/gtest.h>

#include "fs/data/hub_source.h"
#include "fs/data/proto/data.pb.h"
#include "tests/support/fs_data_campus.h"

namespace quadfs::fs {
namespace {

using test::Content;
using test::InTime;
using test::IsError;
using test::IsOk;
using test::MakeContent;

class IngestTest : public testing::Test {
 protected:
  IngestTest() {
    inode_ = names_.MakeFile(kRootInode, "f");
    id_ = {inode_, Generation(1 << 16)};
    names_.Publish(id_, manifest_, {kMainCampus, NodeId(5), id_.generation, false});
  }
  Result<data::IncomingAnswer> Announce(const ObjectId& id, const cache::Manifest& manifest) {
    const auto answer = QUADFS_TRY(client_.Call("POST", "/v1/incoming/" + cache::ObjectName(id),
                                                manifest.Serialize(), InTime(), {}));
    data::IncomingAnswer state;
    EXPECT_TRUE(state.ParseFromString(answer.body));
    return state;
  }
  Result<transport::Answer> Put(const ObjectId& id, uint64_t first, uint64_t count,
                                const Content& content) {
    const size_t end = std::min<size_t>(content.size(), (first + count) * kBlockBytes);
    size_t at = first * kBlockBytes;
    return client_.Upload(DataTarget(id, first, count), end - at,
                          [&](std::span<std::byte> buffer) -> Result<size_t> {
                            const size_t piece = std::min(buffer.size(), end - at);
                            std::copy_n(content.begin() + static_cast<ptrdiff_t>(at), piece,
                                        buffer.begin());
                            at += piece;
                            return piece;
                          },
                          InTime(), {});
  }
  Result<transport::Answer> Commit(const ObjectId& id) {
    return client_.Call("POST", "/v1/commit/" + cache::ObjectName(id), {}, InTime(), {});
  }

  test::TestNamespace names_;
  test::TestCampusHub hub_{1, names_};
  test::LiveClient client_{hub_.live, test::PeerOf(kMainCampus, NodeId(5))};
  const Content content_ = MakeContent(6 * kBlockBytes + 10, 1);
  const cache::Manifest manifest_ = cache::Manifest::Of(content_);
  InodeId inode_;
  ObjectId id_;
};

// The hub dies between blocks: it asks only for what it has not got, and the result is whole.
TEST_F(IngestTest, AnUploadGoesOnWhereAKilledHubLeftIt) {
  auto state = Announce(id_, manifest_);
  ASSERT_THAT(state, IsOk());
  ASSERT_EQ(state->missing_size(), 1);
  EXPECT_EQ(state->missing(0).count(), 7U);
  ASSERT_THAT(Put(id_, 0, 3, content_), IsOk());
  EXPECT_THAT(Commit(id_), IsError(ErrorCode::kNotFound));
  EXPECT_FALSE(names_.Has(inode_, {kMainCampus, NodeId(0), id_.generation, true}));
  hub_.Kill();
  hub_.Start();
  EXPECT_THAT(Put(id_, 3, 4, content_), IsError(ErrorCode::kNotFound));  // "Announce it again."
  state = Announce(id_, manifest_);
  ASSERT_THAT(state, IsOk());
  ASSERT_GE(state->missing_size(), 1);
  for (const auto& range : state->missing()) {
    ASSERT_THAT(Put(id_, range.first(), range.count(), content_), IsOk());
  }
  ASSERT_THAT(Commit(id_), IsOk());
  EXPECT_EQ(test::ReadContent(hub_.PathInStore("f")), content_);
  EXPECT_TRUE(names_.Has(inode_, {kMainCampus, NodeId(0), id_.generation, true}));
  // And all of it may be repeated.
  ASSERT_THAT(Commit(id_), IsOk());
  EXPECT_TRUE(Announce(id_, manifest_)->held());
}

TEST_F(IngestTest, DamagedBlocksAndOtherContentAreRefused) {
  ASSERT_THAT(Announce(id_, manifest_), IsOk());
  Content hurt = content_;
  hurt[5] ^= std::byte{1};
  EXPECT_THAT(Put(id_, 0, 1, hurt), IsError(ErrorCode::kCorruption));
  EXPECT_THAT(Announce(id_, cache::Manifest::Of(hurt)), IsError(ErrorCode::kCorruption));
  EXPECT_THAT(Put(id_, 5, 9, content_), IsError(ErrorCode::kInvalidArgument));
}

TEST_F(IngestTest, SupersededRemovedAndUnheardOfAreToldApart) {
  EXPECT_THAT(Announce({inode_, Generation(9 << 16)}, manifest_), IsError(ErrorCode::kBusy));
  EXPECT_THAT(Announce({InodeId(4711), Generation(1)}, manifest_), IsError(ErrorCode::kBusy));
  ASSERT_THAT(Announce(id_, manifest_), IsOk());
  ASSERT_THAT(Put(id_, 0, 7, content_), IsOk());
  const ObjectId newer{inode_, Generation(2 << 16)};
  names_.Publish(newer, manifest_, {});
  EXPECT_THAT(Commit(id_), IsError(ErrorCode::kStale));
  EXPECT_THAT(Announce(id_, manifest_), IsError(ErrorCode::kStale));
  names_.Remove(inode_);
  EXPECT_THAT(Announce(newer, manifest_), IsError(ErrorCode::kStale));
  EXPECT_FALSE(std::filesystem::exists(hub_.PathInStore("f")));
}

// Stored but the log could not be told: the sender may not forget it, and the next commit tells.
TEST_F(IngestTest, TheSenderHearsOfSuccessOnlyAfterTheLocationIsKnown) {
  ASSERT_THAT(Announce(id_, manifest_), IsOk());
  ASSERT_THAT(Put(id_, 0, 7, content_), IsOk());
  hub_.hub.SetCut(true);
  EXPECT_THAT(Commit(id_), IsError(ErrorCode::kUnavailable));
  EXPECT_EQ(hub_.hub.located(), 0);
  hub_.hub.SetCut(false);
  ASSERT_THAT(Commit(id_), IsOk());
  EXPECT_TRUE(names_.Has(inode_, {kMainCampus, NodeId(0), id_.generation, true}));
}

// The hub dies after the rename and before the log knows: at its start it tells.
TEST_F(IngestTest, WhatACrashKeptFromTheLogIsToldAtStart) {
  ASSERT_THAT(Announce(id_, manifest_), IsOk());
  ASSERT_THAT(Put(id_, 0, 7, content_), IsOk());
  hub_.hub.SetCut(true);
  EXPECT_THAT(Commit(id_), IsError(ErrorCode::kUnavailable));
  hub_.Kill();
  hub_.hub.SetCut(false);
  hub_.Start();
  const auto by = InTime();
  while (!names_.Has(inode_, {kMainCampus, NodeId(0), id_.generation, true}) && !by.Passed()) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(names_.Has(inode_, {kMainCampus, NodeId(0), id_.generation, true}));
}

// A new version of which one block differs: only that block is asked for.
TEST_F(IngestTest, UnchangedBlocksAreNotAskedFor) {
  ASSERT_THAT(Announce(id_, manifest_), IsOk());
  ASSERT_THAT(Put(id_, 0, 7, content_), IsOk());
  ASSERT_THAT(Commit(id_), IsOk());
  Content changed = content_;
  changed[2 * kBlockBytes + 7] ^= std::byte{1};
  const auto manifest = cache::Manifest::Of(changed);
  const ObjectId newer{inode_, Generation(2 << 16)};
  names_.Publish(newer, manifest, {});
  const auto state = Announce(newer, manifest);
  ASSERT_THAT(state, IsOk());
  ASSERT_EQ(state->missing_size(), 1);
  EXPECT_EQ(state->missing(0).first(), 2U);
  EXPECT_EQ(state->missing(0).count(), 1U);
  ASSERT_THAT(Put(newer, 2, 1, changed), IsOk());
  ASSERT_THAT(Commit(newer), IsOk());
  EXPECT_EQ(test::ReadContent(hub_.PathInStore("f")), changed);
}

}  // namespace
}  // namespace quadfs::fs
