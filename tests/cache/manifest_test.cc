#include "cache/manifest.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/support/cache_files.h"
#include "tests/support/matchers.h"

namespace quadfs::cache {
namespace {

using test::Bytes;
using test::IsError;
using test::IsOk;
using test::RandomBytes;

std::string Hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

Manifest Golden() {
  Checksum first;
  Checksum second;
  for (size_t i = 0; i < 16; ++i) {
    first.bytes[i] = static_cast<uint8_t>(i);
    second.bytes[i] = static_cast<uint8_t>(0xF0 + i);
  }
  return Manifest(kBlockBytes + 5, {first, second});
}

// These bytes are on disks and on the wire: a change of them is a new format version.
TEST(ManifestTest, GoldenBytesNeverChange) {
  EXPECT_EQ(Hex(Golden().Serialize()),
            "51464d46"
            "01000000"
            "0500100000000000"
            "000102030405060708090a0b0c0d0e0f"
            "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
            "b19cc5a4");
  EXPECT_EQ(Golden().Root().ToHex(), "42ecce77f44c6e6490c1fce14ce979fc");
  EXPECT_EQ(Manifest().Root().ToHex(), "4c8ef2827d5f0dc2e5b0063e270b67c4");
}

TEST(ManifestTest, ParseIsTheInverseOfSerialize) {
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{kBlockBytes}, size_t{3 * kBlockBytes + 7}}) {
    const Manifest manifest = Manifest::Of(RandomBytes(size, size));
    const auto parsed = Manifest::Parse(manifest.Serialize());
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(*parsed, manifest);
    EXPECT_EQ(parsed->block_count(), BlockCount(size));
  }
}

// Every single flipped bit and every cut is noticed.
TEST(ManifestTest, DamageIsDetected) {
  const std::string good = Golden().Serialize();
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THAT(Manifest::Parse(bad), IsError(ErrorCode::kCorruption)) << bit;
  }
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_THAT(Manifest::Parse(good.substr(0, length)), IsError(ErrorCode::kCorruption));
  }
}

TEST(ManifestTest, RootDependsOnSizeAndEveryBlock) {
  const Manifest manifest = Golden();
  Manifest shorter(kBlockBytes + 4, {manifest.block(0), manifest.block(1)});
  EXPECT_NE(shorter.Root(), manifest.Root());
  Manifest swapped(kBlockBytes + 5, {manifest.block(1), manifest.block(0)});
  EXPECT_NE(swapped.Root(), manifest.Root());
}

TEST(ManifestTest, BlockOfWrongLengthOrContentDoesNotMatch) {
  const Bytes content = RandomBytes(kBlockBytes + 100, 1);
  const Manifest manifest = Manifest::Of(content);
  EXPECT_TRUE(manifest.Matches(0, test::BlockOf(content, 0)));
  EXPECT_TRUE(manifest.Matches(1, test::BlockOf(content, 1)));
  EXPECT_FALSE(manifest.Matches(1, test::BlockOf(content, 0)));
  EXPECT_FALSE(manifest.Matches(1, test::BlockOf(content, 1).first(99)));
  EXPECT_FALSE(manifest.Matches(2, {}));
}

// A file with holes, at block borders and inside blocks, has the manifest of its bytes.
TEST(ManifestTest, OfFileReadsHolesAsZeros) {
  const test::TempDirectory directory;
  const std::string path = directory.path() + "/sparse";
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT, 0600));
  const uint64_t size = 9 * kBlockBytes + 12345;
  ASSERT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  const Bytes piece = RandomBytes(100'000, 7);
  for (const uint64_t offset : {uint64_t{0}, 3 * kBlockBytes - 50'000, 6 * kBlockBytes + 4096}) {
    ASSERT_EQ(::pwrite(fd.get(), piece.data(), piece.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(piece.size()));
  }
  const auto manifest = Manifest::OfFile(fd.get(), size);
  ASSERT_THAT(manifest, IsOk());
  EXPECT_EQ(*manifest, Manifest::Of(test::ReadWhole(path)));
  EXPECT_THAT(Manifest::OfFile(fd.get(), size + 1), IsError(ErrorCode::kStale));
  EXPECT_THAT(Manifest::OfFile(fd.get(), size + kBlockBytes), IsError(ErrorCode::kStale));
}

TEST(ObjectNameTest, RoundTripAndRefusals) {
  const ObjectId object{InodeId(0x0001000000000007), Generation(10)};
  EXPECT_EQ(ObjectName(object), "0001000000000007.000000000000000a");
  const auto parsed = ParseObjectName(ObjectName(object));
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(*parsed, object);
  for (const char* wrong :
       {"", "0001000000000007", "0001000000000007-000000000000000a",
        "0001000000000007.000000000000000A", "0001000000000007.00000000000000ag",
        "0001000000000007.000000000000000a0"}) {
    EXPECT_THAT(ParseObjectName(wrong), IsError(ErrorCode::kInvalidArgument)) << wrong;
  }
}

}  // namespace
}  // namespace quadfs::cache
