#include "fs/data/block_cutter.h"

#include <gtest/gtest.h>

#include <random>

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
  BlockSource::BlockSink sink() {
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

}  // namespace
}  // namespace quadfs::fs
