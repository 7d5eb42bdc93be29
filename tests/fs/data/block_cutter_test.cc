#include "fs/data/block_cutter.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <thread>

#include "fs/data/bundle_stream.h"
#include "tests/support/fs_data_content.h"
#include "tests/support/matchers.h"

namespace quadfs::fs {
namespace {

using test::Content;
using test::IsError;
using test::IsOk;
using test::MakeContent;

constexpr size_t kSize = 3 * kBlockBytes + 12345;

struct Cut {
  Content content;
  std::optional<cache::Manifest> manifest;
  BlockSink sink() {
    return [this](uint64_t, std::span<const std::byte> block) -> Result<void> {
      content.insert(content.end(), block.begin(), block.end());
      return {};
    };
  }
  BlockSource::ManifestSink manifest_sink() {
    return [this](cache::Manifest taken) -> Result<void> {
      manifest = std::move(taken);
      return {};
    };
  }
};

std::string BodyOf(const Content& content) {
  std::string body = ManifestPrefix(cache::Manifest::Of(content));
  body.append(reinterpret_cast<const char*>(content.data()), content.size());
  return body;
}

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Cut anywhere, also inside the length and the manifest, the blocks come out whole and in order.
TEST(BlockCutterTest, PiecesOfAnySizeGiveTheSameBlocks) {
  const Content content = MakeContent(kSize, 1);
  const std::string body = BodyOf(content);
  std::mt19937_64 random(7);
  for (int round = 0; round < 30; ++round) {
    Cut cut;
    BlockCutter cutter(0, 4, std::nullopt, cut.sink());
    cutter.ExpectManifest(cut.manifest_sink());
    for (size_t at = 0; at < body.size();) {
      const size_t piece =
          std::min<size_t>(body.size() - at, 1 + random() % (round % 2 == 0 ? 5000 : 2'000'000));
      ASSERT_THAT(cutter.Feed(Bytes(std::string_view(body).substr(at, piece))), IsOk());
      at += piece;
    }
    ASSERT_THAT(cutter.Finish(), IsOk());
    EXPECT_EQ(cut.content, content);
    EXPECT_EQ(cut.manifest, cache::Manifest::Of(content));
  }
}

// The last block may be short; any other end in between is an error, and so is a byte too much.
TEST(BlockCutterTest, NeitherTooFewNorTooManyBytesPass) {
  const Content content = MakeContent(kSize, 2);
  const std::string body(reinterpret_cast<const char*>(content.data()), content.size());
  for (const size_t bytes : {size_t{0}, size_t{100}, size_t{kBlockBytes}, 2 * kBlockBytes + 5}) {
    Cut cut;
    BlockCutter cutter(0, 4, std::nullopt, cut.sink());
    ASSERT_THAT(cutter.Feed(Bytes(std::string_view(body).substr(0, bytes))), IsOk());
    EXPECT_THAT(cutter.Finish(), IsError(ErrorCode::kUnavailable)) << bytes;
  }
  Cut cut;
  BlockCutter cutter(0, 4, kSize, cut.sink());
  EXPECT_THAT(cutter.Feed(Bytes(body + "x")), IsError(ErrorCode::kCorruption));
}

// Garbage where the manifest should be: an error, and never a length that is believed.
TEST(BlockCutterTest, GarbageManifestsAreRefused) {
  std::mt19937_64 random(11);
  int refused = 0;
  for (int round = 0; round < 500; ++round) {
    std::string garbage(1 + random() % 300, '\0');
    for (char& c : garbage) c = static_cast<char>(random());
    if (round % 2 == 0)
      garbage.replace(0, std::min<size_t>(4, garbage.size()), "\0\0\0\x40",
                      std::min<size_t>(4, garbage.size()));
    Cut cut;
    BlockCutter cutter(0, 1, std::nullopt, cut.sink());
    cutter.ExpectManifest(cut.manifest_sink());
    const auto fed = cutter.Feed(Bytes(garbage));
    if (!fed.ok() || !cutter.Finish().ok()) ++refused;
    EXPECT_FALSE(cut.manifest);
  }
  EXPECT_EQ(refused, 500);
}

// A bundle cut anywhere; an error of one object is that object's alone.
TEST(BundleReaderTest, ObjectsAndErrorsComeOutOfAnyPieces) {
  std::string body;
  const Content small = MakeContent(5000, 3);
  AppendBundleItem(body, {InodeId(1), Generation(2)}, small);
  AppendBundleItem(body, {InodeId(2), Generation(3)}, Error(ErrorCode::kNotFound, "gone"));
  AppendBundleItem(body, {InodeId(3), Generation(4)}, Content());
  for (size_t piece = 1; piece < 40; piece += 3) {
    std::map<uint64_t, Result<Content>> got;
    BundleReader reader([&](const ObjectId& object, Result<Content> content) -> Result<void> {
      got.emplace(object.inode.value, std::move(content));
      return {};
    });
    for (size_t at = 0; at < body.size(); at += piece) {
      ASSERT_THAT(reader.Feed(Bytes(std::string_view(body).substr(at, piece))), IsOk());
    }
    ASSERT_THAT(reader.Finish(), IsOk());
    ASSERT_EQ(got.size(), 3U);
    EXPECT_EQ(*got.at(1), small);
    EXPECT_THAT(got.at(2), IsError(ErrorCode::kNotFound));
    EXPECT_TRUE(got.at(3)->empty());
  }
}

TEST(BundleReaderTest, ALengthAboveOneBlockIsRefused) {
  std::string body;
  AppendBundleItem(body, {InodeId(1), Generation(2)}, Content(10));
  body[17] = '\x7F';
  BundleReader reader([](const ObjectId&, Result<Content>) -> Result<void> { return {}; });
  EXPECT_THAT(reader.Feed(Bytes(body)), IsError(ErrorCode::kCorruption));
  BundleReader cut([](const ObjectId&, Result<Content>) -> Result<void> { return {}; });
  ASSERT_THAT(cut.Feed(Bytes(std::string_view(body).substr(0, 10))), IsOk());
  EXPECT_THAT(cut.Finish(), IsError(ErrorCode::kUnavailable));
}

class ArrivingBlockTest : public testing::Test {
 protected:
  BlockSink sink() {
    return {[this](uint64_t, std::span<const std::byte>) { return verdict_; },
            [this](uint64_t index, ArrivingBlockRef block) { begun_[index] = std::move(block); }};
  }
  std::span<const std::byte> Piece(size_t from, size_t count) const {
    return std::span(content_).subspan(from, count);
  }
  Deadline Soon() const { return Deadline::After(std::chrono::seconds(10)); }

  const Content content_ = MakeContent(kSize, 9);
  Result<void> verdict_;
  std::map<uint64_t, ArrivingBlockRef> begun_;
};

// What has come can be passed on before the block is whole; its last piece after the check alone.
TEST_F(ArrivingBlockTest, PiecesAreThereBeforeTheBlockIsWhole) {
  BlockCutter cutter(0, 4, kSize, sink());
  ASSERT_THAT(cutter.Feed(Piece(0, 300'000)), IsOk());
  ASSERT_TRUE(begun_.contains(0));
  const ArrivingBlockRef block = begun_[0];
  auto here = block->Await(0, kBlockBytes, Soon());
  ASSERT_THAT(here, IsOk());
  EXPECT_TRUE(std::ranges::equal(*here, Piece(0, 300'000)));
  EXPECT_THAT(block->Await(300'000, kBlockBytes, Deadline::After(std::chrono::milliseconds(5))),
              IsError(ErrorCode::kTimedOut));

  const size_t held = kBlockBytes - ArrivingBlock::kHeldBytes;
  ASSERT_THAT(cutter.Feed(Piece(300'000, kBlockBytes - 1 - 300'000)), IsOk());
  here = block->Await(300'000, kBlockBytes, Soon());
  ASSERT_THAT(here, IsOk());
  EXPECT_EQ(here->size(), held - 300'000);
  EXPECT_THAT(block->Await(held, kBlockBytes, Deadline::After(std::chrono::milliseconds(5))),
              IsError(ErrorCode::kTimedOut));

  ASSERT_THAT(cutter.Feed(Piece(kBlockBytes - 1, 1)), IsOk());
  here = block->Await(held, kBlockBytes, Soon());
  ASSERT_THAT(here, IsOk());
  EXPECT_TRUE(std::ranges::equal(*here, Piece(held, ArrivingBlock::kHeldBytes)));
}

TEST_F(ArrivingBlockTest, WhatFailsItsCheckIsNeverWhole) {
  verdict_ = Error(ErrorCode::kCorruption, "damaged");
  BlockCutter cutter(0, 4, kSize, sink());
  ASSERT_THAT(cutter.Feed(Piece(0, 1000)), IsOk());
  const ArrivingBlockRef block = begun_[0];
  EXPECT_THAT(cutter.Feed(Piece(1000, kBlockBytes - 1000)), IsError(ErrorCode::kCorruption));
  const auto rest = block->Await(kBlockBytes - 10, kBlockBytes, Soon());
  ASSERT_THAT(rest, IsOk());
  EXPECT_TRUE(rest->empty());
}

TEST_F(ArrivingBlockTest, ABlockThatStopsComingEndsItsReaders) {
  auto cutter = std::make_unique<BlockCutter>(0, 4, kSize, sink());
  ASSERT_THAT(cutter->Feed(Piece(0, 1000)), IsOk());
  const ArrivingBlockRef block = begun_[0];
  std::jthread ends([&] { cutter.reset(); });
  const auto rest = block->Await(1000, kBlockBytes, Soon());
  ASSERT_THAT(rest, IsOk());
  EXPECT_TRUE(rest->empty());
}

TEST_F(ArrivingBlockTest, TheShortLastBlockIsPassedOnToo) {
  BlockCutter cutter(3, 1, std::nullopt, sink());
  ASSERT_THAT(cutter.Feed(Piece(3 * kBlockBytes, 12345)), IsOk());
  const ArrivingBlockRef block = begun_[3];
  EXPECT_THAT(block->Await(0, 12345, Deadline::After(std::chrono::milliseconds(5))),
              IsError(ErrorCode::kTimedOut));
  ASSERT_THAT(cutter.Finish(), IsOk());
  const auto here = block->Await(0, 12345, Soon());
  ASSERT_THAT(here, IsOk());
  EXPECT_TRUE(std::ranges::equal(*here, Piece(3 * kBlockBytes, 12345)));
}

}  // namespace
}  // namespace quadfs::fs
