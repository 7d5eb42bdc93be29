#include "tools/mount_arguments.h"

#include "tests/support/matchers.h"

namespace quadfs::tools {
namespace {

using test::IsError;
using test::IsOk;

// What mount(8) passes for the line of fstab in the manual.
TEST(MountArgumentsTest, FstabLine) {
  const auto parsed =
      ParseMountArguments({"quadfs", "/grid", "-o",
                           "rw,_netdev,nofail,config=/etc/q.toml,nosuid,x-systemd.requires=a"});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->target, "/grid");
  EXPECT_EQ(parsed->config, "/etc/q.toml");
  EXPECT_EQ(parsed->options, "nosuid");
  EXPECT_FALSE(parsed->fake);
}

TEST(MountArgumentsTest, FlagsAndTimeout) {
  const auto parsed = ParseMountArguments(
      {"quadfs", "/grid/", "-sfn", "-o", "ro,noexec,timeout=5s", "-t", "quadfs"});
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->target, "/grid");
  EXPECT_EQ(parsed->options, "ro,noexec");
  EXPECT_EQ(parsed->timeout, std::chrono::seconds(5));
  EXPECT_TRUE(parsed->fake);
}

TEST(MountArgumentsTest, MistakesAreRefused) {
  EXPECT_THAT(ParseMountArguments({"quadfs"}), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(ParseMountArguments({"quadfs", "/grid", "-o"}), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(ParseMountArguments({"quadfs", "/grid", "-z"}), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(ParseMountArguments({"quadfs", "/grid", "-o", "timeout=soon"}),
              IsError(ErrorCode::kInvalidArgument));
}

}  // namespace
}  // namespace quadfs::tools
