// Whole copies are passed through, partial ones served by the daemon, and never both at once.
#include "tests/fs/node/node_fixture.h"

namespace quadfs::test {
namespace {

constexpr size_t kLarge = 12 * kBlockBytes;  // Above what an open fetches whole.

class IoModeTest : public NodeMountTest {
 protected:
  /// A file at node one that node two has nothing of.
  std::string MakeLarge() {
    StartTwo();
    std::string text(kLarge, '\0');
    for (size_t i = 0; i < text.size(); i += 512) text[i] = static_cast<char>('a' + i / 512 % 26);
    Put(*one_ / "f", text);
    return text;
  }
};

TEST_F(IoModeTest, WholeCopyIsPassedThrough) {
  if (!one_->mount().status().passthrough) GTEST_SKIP() << "kernel or libfuse cannot pass through";
  Put(*one_ / "f", "text");
  const auto before = one_->mount().status();
  EXPECT_EQ(Get(*one_ / "f"), "text");
  const auto after = one_->mount().status();
  EXPECT_EQ(after.passthrough_opens, before.passthrough_opens + 1);
  EXPECT_EQ(after.cached_opens, before.cached_opens);
}

TEST_F(IoModeTest, SmallRemoteFileIsWholeAtOpen) {
  StartTwo();
  if (!two_->mount().status().passthrough) GTEST_SKIP() << "kernel or libfuse cannot pass through";
  Put(*one_ / "f", std::string(3 * kBlockBytes, 'x'));
  const auto before = two_->mount().status();
  EXPECT_EQ(Get(*two_ / "f").size(), 3 * kBlockBytes);
  EXPECT_EQ(two_->mount().status().cached_opens, before.cached_opens);
  EXPECT_EQ(cluster_->peers.blocks(), 3U);
  EXPECT_EQ(Get(*two_ / "f").size(), 3 * kBlockBytes);
  EXPECT_EQ(cluster_->peers.blocks(), 3U);  // Fetched once.
}

// First byte without the last; a second handle stays in the same mode; whole, it is passed through.
TEST_F(IoModeTest, PartialCopyIsServedBlockByBlock) {
  const std::string text = MakeLarge();
  UniqueFd fd = Open(*two_ / "f", O_RDONLY);
  char byte = 0;
  ASSERT_EQ(::pread(fd.get(), &byte, 1, 7 * kBlockBytes), 1);
  EXPECT_EQ(byte, text[7 * kBlockBytes]);
  EXPECT_EQ(two_->mount().status().cached_opens, 1U);
  EXPECT_EQ(Get(*two_ / "f"), text);
  EXPECT_EQ(two_->mount().status().cached_opens, 2U);
  void* const map = ::mmap(nullptr, kLarge, PROT_READ, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  EXPECT_EQ(std::string(static_cast<char*>(map), kLarge), text);
  ::munmap(map, kLarge);
  fd.Reset();
  ASSERT_TRUE(Eventually([&] { return two_->mount().status().open_files == 0; }));
  const auto before = two_->mount().status();
  EXPECT_EQ(Get(*two_ / "f"), text);
  if (before.passthrough) {
    EXPECT_EQ(two_->mount().status().passthrough_opens, before.passthrough_opens + 1);
  }
}

// Writing into a file of which most is elsewhere: what was not written stays what it was.
TEST_F(IoModeTest, WriteIntoPartialCopy) {
  std::string text = MakeLarge();
  UniqueFd fd = Open(*two_ / "f", O_RDWR);
  ASSERT_EQ(::pwrite(fd.get(), "HERE", 4, 5 * kBlockBytes + 100), 4);
  ASSERT_EQ(::pwrite(fd.get(), "END", 3, kLarge), 3);
  text.replace(5 * kBlockBytes + 100, 4, "HERE");
  text += "END";
  EXPECT_EQ(ReadAll(fd.get()), text);
  fd.Reset();
  EXPECT_TRUE(Eventually([&] { return Get(*one_ / "f") == text; }));
  EXPECT_EQ(Get(*two_ / "f"), text);
}

TEST_F(IoModeTest, TruncatePartialCopy) {
  const std::string text = MakeLarge();
  UniqueFd fd = Open(*two_ / "f", O_RDWR);
  ASSERT_EQ(::ftruncate(fd.get(), kBlockBytes + 10), 0);
  ASSERT_EQ(::ftruncate(fd.get(), 2 * kBlockBytes), 0);
  fd.Reset();
  const std::string expected =
      text.substr(0, kBlockBytes + 10) + std::string(kBlockBytes - 10, '\0');
  EXPECT_TRUE(Eventually([&] { return Get(*one_ / "f") == expected; }));
  EXPECT_EQ(Get(*two_ / "f"), expected);
}

// A reader's file is truncated and rewritten on the same node: one view per node.
TEST_F(IoModeTest, RewriteUnderAReader) {
  Put(*one_ / "f", "first content");
  const UniqueFd reader = Open(*one_ / "f", O_RDONLY);
  EXPECT_EQ(ReadAll(reader.get()), "first content");
  Put(*one_ / "f", "2nd");
  EXPECT_EQ(ReadAll(reader.get()), "2nd");
  EXPECT_EQ(Get(*one_ / "f"), "2nd");
}

// Cut off: what is here is read, what is not fails within the deadline, and nothing hangs.
TEST_F(IoModeTest, CutLineFailsFast) {
  const std::string text = MakeLarge();
  const UniqueFd fd = Open(*two_ / "f", O_RDONLY);
  char byte = 0;
  ASSERT_EQ(::pread(fd.get(), &byte, 1, 0), 1);
  cluster_->peers.Cut(true);
  two_->replica().Cut();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(::pread(fd.get(), &byte, 1, 0), 1);
  EXPECT_EQ(::mkdir((*two_ / "d").c_str(), 0755), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(StatOf(*two_ / "f").st_size, static_cast<off_t>(kLarge));
  struct stat status {};
  EXPECT_EQ(::stat((*two_ / "missing").c_str(), &status), -1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  cluster_->peers.Cut(false);
  two_->replica().Heal();
  EXPECT_EQ(Get(*two_ / "f"), text);
}

// Without passthrough everything works through the daemon.
TEST_F(IoModeTest, WorksWithoutPassthrough) {
  fs::NodeMount::Options options;
  options.passthrough = false;
  two_ = Make(2, options);
  ASSERT_THAT(two_->Start(), IsOk());
  Put(*two_ / "f", "through the daemon");
  UniqueFd fd = Open(*two_ / "f", O_RDWR | O_APPEND);
  ASSERT_EQ(::write(fd.get(), "!", 1), 1);
  void* const map = ::mmap(nullptr, 19, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  fd.Reset();
  static_cast<char*>(map)[0] = 'T';
  ::munmap(map, 19);
  EXPECT_EQ(Get(*two_ / "f"), "Through the daemon!");
  EXPECT_TRUE(Eventually([&] { return Get(*one_ / "f") == "Through the daemon!"; }));
  EXPECT_EQ(two_->mount().status().passthrough_opens, 0U);
}

}  // namespace
}  // namespace quadfs::test
