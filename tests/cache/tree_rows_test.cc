#include "cache/tree_rows.h"

#include "tests/support/matchers.h"

namespace quadfs::cache {
namespace {

using test::IsError;
using test::IsOk;

std::string Hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

HeldRow Held() {
  HeldRow row;
  row.generation = Generation(3);
  row.place = {2, "f"};
  row.size_bytes = 5;
  row.root.bytes[15] = 0xEE;
  row.signature = {.size = 5, .mtime_ns = 6, .ctime_ns = 7, .inode = 8};
  row.manifest.emplace(1);
  (*row.manifest)[0].bytes[0] = 0xDD;
  return row;
}

IncomingRow Upload() {
  IncomingRow row;
  row.root = Held().root;
  row.size_bytes = 5;
  row.file_inode = 9;
  row.durable = BlockBitmap::Full(1);
  row.becomes = Held();
  row.old_signature = Held().signature;
  row.old_place = {1, "g"};
  return row;
}

MoveRow Move() {
  return {.from = {1, "a"}, .to = {2, "b"}, .file_inode = 3, .replaced_directory = 4};
}

// These bytes are on disks: a change of them is a new format version.
TEST(TreeRowsTest, GoldenBytesNeverChange) {
  EXPECT_EQ(Hex(Held().Encode()),
            "0103000000000000000200000000000000016605000000000000000000000000000000000000"
            "00000000ee050000000000000006000000000000000700000000000000080000000000000001"
            "dd000000000000000000000000000000be930eb0");
  EXPECT_EQ(Hex(Upload().Encode()),
            "01000000000000000000000000000000ee050000000000000009000000000000000101030000"
            "0000000000020000000000000001660500000000000000000000000000000000000000000000"
            "ee050000000000000006000000000000000700000000000000080000000000000001dd000000"
            "0000000000000000000000000500000000000000060000000000000007000000000000000800"
            "00000000000001000000000000000167dcca942a");
  EXPECT_EQ(Hex(Move().Encode()),
            "0101000000000000000161020000000000000001620300000000000000040000000000000094"
            "072fc4");
  EXPECT_EQ(Hex(EncodePlace({2, "f"})), "01020000000000000001667f2c25fa");
}

TEST(TreeRowsTest, DecodeIsTheInverse) {
  EXPECT_EQ(HeldRow::Decode(Held().Encode())->Encode(), Held().Encode());
  EXPECT_EQ(IncomingRow::Decode(Upload().Encode())->Encode(), Upload().Encode());
  EXPECT_EQ(MoveRow::Decode(Move().Encode())->Encode(), Move().Encode());
  EXPECT_EQ(*DecodePlace(EncodePlace({2, "f"})), (Place{2, "f"}));
  const Place longest{~uint64_t{0}, std::string(255, 'n')};
  EXPECT_EQ(*DecodePlace(EncodePlace(longest)), longest);
}

// Every flipped bit and every cut of every kind of row.
TEST(TreeRowsTest, DamageIsDetected) {
  const auto check = [](const std::string& good, const auto& decode) {
    ASSERT_THAT(decode(good), IsOk());
    for (size_t bit = 0; bit < good.size() * 8; ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_THAT(decode(bad), IsError(ErrorCode::kCorruption));
    }
    for (size_t length = 0; length < good.size(); ++length) {
      EXPECT_THAT(decode(good.substr(0, length)), IsError(ErrorCode::kCorruption));
    }
  };
  check(Held().Encode(), [](const std::string& row) { return HeldRow::Decode(row); });
  check(Upload().Encode(), [](const std::string& row) { return IncomingRow::Decode(row); });
  check(Move().Encode(), [](const std::string& row) { return MoveRow::Decode(row); });
  check(EncodePlace({2, "f"}), [](const std::string& row) { return DecodePlace(row); });
}

}  // namespace
}  // namespace quadfs::cache
