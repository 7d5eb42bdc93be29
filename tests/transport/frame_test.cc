#include "transport/frame.h"

#include "tests/support/matchers.h"

namespace quadfs::transport {
namespace {

using test::IsError;
using test::IsOk;
using testing::ElementsAre;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string Three() {
  std::string stream;
  AppendFrame(stream, 1, "first");
  AppendFrame(stream, 2, "");
  AppendFrame(stream, 3, std::string(100'000, 'x'));
  return stream;
}

/// Feeds `stream` in pieces of `piece_bytes` and returns "type:size" of each frame.
Result<std::vector<std::string>> Read(std::string_view stream, size_t piece_bytes) {
  FrameReader reader;
  std::vector<std::string> seen;
  for (size_t at = 0; at < stream.size(); at += piece_bytes) {
    auto fed = reader.Feed(Bytes(stream.substr(at, piece_bytes)), [&seen](const Frame& frame) {
      seen.push_back(std::to_string(frame.type) + ":" + std::to_string(frame.payload.size()));
      return Result<void>();
    });
    if (!fed.ok()) return std::move(fed).error();
  }
  return seen;
}

// The bytes on the wire are frozen: hubs of several versions speak to each other.
TEST(FrameTest, GoldenBytes) {
  std::string stream = "before";
  AppendFrame(stream, 7, "quad");
  // CRC-32C of "\x07quad", by an independent implementation.
  EXPECT_EQ(stream, std::string("before\x00\x00\x00\x04\x07"
                                "\xFD\xD8\xA1\xB7"
                                "quad",
                                19));
}

// However the stream is torn, the same frames come out in order.
TEST(FrameTest, TornAnywhereItReadsTheSame) {
  const std::string stream = Three();
  for (const size_t piece_bytes :
       {size_t{1}, size_t{2}, size_t{8}, size_t{9}, size_t{10}, size_t{4096}, stream.size()}) {
    auto seen = Read(stream, piece_bytes);
    ASSERT_THAT(seen, IsOk()) << piece_bytes;
    EXPECT_THAT(*seen, ElementsAre("1:5", "2:0", "3:100000")) << piece_bytes;
  }
}

// A flipped bit in type, checksum or payload is noticed; one in the length too, or the frame never
// ends, but it is never taken for a good one.
TEST(FrameTest, GarbledFramesAreNeverDelivered) {
  std::string good;
  AppendFrame(good, 1, "payload");
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    auto seen = Read(bad, bad.size());
    EXPECT_TRUE(!seen.ok() || seen->empty()) << "bit " << bit;
    if (bit >= 32) {
      EXPECT_THAT(seen, IsError(ErrorCode::kCorruption)) << "bit " << bit;
    }
  }
}

// A hostile length is refused before a byte of it is stored.
TEST(FrameTest, TooLongAFrameIsRefused) {
  EXPECT_THAT(Read(std::string("\x01\x00\x00\x01\x01zzzz", 9), 9), IsError(ErrorCode::kTooLarge));
}

TEST(FrameTest, AnErrorOfTheReceiverEndsTheReading) {
  FrameReader reader;
  int seen = 0;
  const auto fed = reader.Feed(Bytes(Three()), [&seen](const Frame&) -> Result<void> {
    ++seen;
    return Error(ErrorCode::kStale, "enough");
  });
  EXPECT_THAT(fed, IsError(ErrorCode::kStale));
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace quadfs::transport
