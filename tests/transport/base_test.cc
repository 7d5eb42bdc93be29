#include <cerrno>
#include <set>

#include "tests/support/matchers.h"
#include "transport/base/checksum.h"
#include "transport/base/clock.h"
#include "transport/base/ids.h"
#include "transport/base/random.h"
#include "transport/base/unique_fd.h"

namespace quadfs {
namespace {

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The test vectors of RFC 3720 B.4 and the usual check value.
TEST(ChecksumTest, Crc32cKnowsItsTestVectors) {
  EXPECT_EQ(Crc32c(Bytes("123456789")), 0xE3069283U);
  EXPECT_EQ(Crc32c(Bytes(std::string(32, '\0'))), 0x8A9136AAU);
  EXPECT_EQ(Crc32c(Bytes(std::string(32, '\xFF'))), 0x62A8AB43U);
  EXPECT_EQ(Crc32c({}), 0U);
}

TEST(ChecksumTest, Crc32cOfPartsIsThatOfTheWhole) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const uint32_t first = Crc32c(Bytes(text.substr(0, cut)));
    EXPECT_EQ(Crc32c(Bytes(text.substr(cut)), first), Crc32c(Bytes(text)));
  }
}

// Stored on disks and in logs, so frozen: XXH3-128 with seed 0 of nothing, as its authors publish.
TEST(ChecksumTest, Xxh3IsCanonical) {
  EXPECT_EQ(ChecksumOf({}).ToHex(), "99aa06d3014798d86001c324468d497f");
  const Checksum one = ChecksumOf(Bytes("one"));
  EXPECT_NE(ChainChecksum(one, Bytes("two")), ChainChecksum({}, Bytes("two")));
  const std::string joined(reinterpret_cast<const char*>(one.bytes.data()), one.bytes.size());
  EXPECT_EQ(ChainChecksum(one, Bytes("two")), ChecksumOf(Bytes(joined + "two")));
}

TEST(ErrorTest, CodesSurviveTheWire) {
  EXPECT_EQ(ErrorCodeFromNumber(static_cast<uint32_t>(ErrorCode::kStale)), ErrorCode::kStale);
  EXPECT_EQ(ErrorCodeFromNumber(0), ErrorCode::kUnknown);
  EXPECT_EQ(ErrorCodeFromNumber(4'000'000'000U), ErrorCode::kUnknown);
  std::set<std::string_view> names;
  for (uint32_t number = 1; number <= 29; ++number) {
    names.insert(ErrorCodeName(ErrorCodeFromNumber(number)));
  }
  EXPECT_EQ(names.size(), 29U);
  EXPECT_EQ(ErrorFromErrno(ENOSPC, "write x").code(), ErrorCode::kNoSpace);
}

TEST(DeadlineTest, NeverHasLessThanNothingLeft) {
  const Deadline past(Clock::System().Now() - std::chrono::seconds(1));
  EXPECT_TRUE(past.Passed());
  EXPECT_EQ(past.Left().count(), 0);
  EXPECT_FALSE(Deadline::After(std::chrono::minutes(1)).Passed());
}

TEST(IdsTest, NeighboursSpreadOverTheHash) {
  std::set<size_t> low_bits;
  for (uint64_t i = 0; i < 1024; ++i) low_bits.insert(std::hash<InodeId>{}(InodeId{i}) % 1024);
  EXPECT_GT(low_bits.size(), 500U);
}

TEST(RandomTest, HexHasTheAskedLengthAndDiffers) {
  const std::string first = RandomHex(16);
  EXPECT_EQ(first.size(), 32U);
  EXPECT_EQ(first.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(first, RandomHex(16));
}

TEST(UniqueFdTest, ClosesOnce) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  UniqueFd moved(std::move(write_end));
  moved.Reset();
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), 0) << "the write end is still open";
}

}  // namespace
}  // namespace quadfs
