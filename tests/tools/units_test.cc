#include "fs/daemon/units.h"

#include "fs/daemon/control_paths.h"
#include "tests/support/matchers.h"
#include "tools/progress_bar.h"

namespace quadfs::daemon {
namespace {

using test::IsError;
using test::IsOk;

TEST(UnitsTest, SizesAreExact) {
  const std::pair<const char*, uint64_t> good[] = {{"0", 0},
                                                   {"4096", 4096},
                                                   {"200MB", 200'000'000},
                                                   {" 200 MB ", 200'000'000},
                                                   {"1TiB", uint64_t{1} << 40},
                                                   {"1.5GB", 1'500'000'000},
                                                   {"18446744073709551615", UINT64_MAX}};
  for (const auto& [text, bytes] : good) {
    const auto parsed = ParseBytes(text);
    ASSERT_THAT(parsed, IsOk()) << text;
    EXPECT_EQ(*parsed, bytes) << text;
  }
  for (const char* bad :
       {"", "MB", "-1", "1.GB", "1,5GB", "5 apples", "18446744073709551616", "99999999TiB"}) {
    EXPECT_THAT(ParseBytes(bad), IsError(ErrorCode::kInvalidArgument)) << bad;
  }
}

TEST(UnitsTest, ExactBytesReadsBack) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{4097}, uint64_t{200'000'000},
                               uint64_t{1} << 40, uint64_t{100} << 30, UINT64_MAX}) {
    const auto parsed = ParseBytes(ExactBytes(bytes));
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(*parsed, bytes);
  }
}

TEST(UnitsTest, Durations) {
  EXPECT_EQ(ParseDuration("1500ms").value(), std::chrono::milliseconds(1500));
  EXPECT_EQ(ParseDuration("30").value(), std::chrono::seconds(30));
  EXPECT_EQ(ParseDuration("5min").value(), std::chrono::minutes(5));
  EXPECT_EQ(ParseDuration("1.5h").value(), std::chrono::minutes(90));
  EXPECT_EQ(ParseDuration("7d").value(), std::chrono::hours(168));
  for (const char* bad : {"", "s", "-1s", "1 fortnight", "99999999999999d"}) {
    EXPECT_THAT(ParseDuration(bad), IsError(ErrorCode::kInvalidArgument)) << bad;
  }
}

TEST(UnitsTest, BytesForPeople) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(20'000), "20.0 KB");
  EXPECT_EQ(FormatBytes(999'999), "1.0 MB");
  EXPECT_EQ(FormatBytes(1'500'000'000), "1.5 GB");
}

TEST(ControlPathsTest, EveryByteSurvives) {
  std::string path = "/grid/";
  for (int byte = 1; byte < 256; ++byte) path += static_cast<char>(byte);
  const std::string text = EncodePath(path);
  for (const char c : text) EXPECT_TRUE(c >= 0x20 && c < 0x7F);
  const auto back = DecodePath(text);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(*back, path);
  for (const char* bad : {"%", "%4", "%zz", "a%"}) {
    EXPECT_THAT(DecodePath(bad), IsError(ErrorCode::kInvalidArgument)) << bad;
  }
}

TEST(ProgressBarTest, LineShowsShareRateAndTimeLeft) {
  const tools::ProgressBar bar("prefetch", /*shown=*/false);
  const std::string line = bar.Line(250'000'000, 1'000'000'000, 3, 10, 2.5);
  EXPECT_EQ(line,
            "prefetch [#####...............] 25 %  250.0 MB of 1.0 GB, 3 of 10 files, 100.0 MB/s, "
            "7.5 s left");
}

}  // namespace
}  // namespace quadfs::daemon
