// Two nodes of one namespace: what one does, the other sees; what one has open, it keeps.
#include "tests/fs/node/node_fixture.h"

namespace quadfs::test {
namespace {

using CoherenceTest = NodeMountTest;

TEST_F(CoherenceTest, ClosedFileIsReadElsewhere) {
  StartTwo();
  const std::string text(3'000'000, 'q');
  Put(*one_ / "f", text);
  EXPECT_EQ(Get(*two_ / "f"), text);
  EXPECT_EQ(StatOf(*one_ / "f").st_ino, StatOf(*two_ / "f").st_ino);
  EXPECT_EQ(StatOf(*one_ / "f").st_mtim.tv_nsec, StatOf(*two_ / "f").st_mtim.tv_nsec);
}

// The kernel's negative, attribute and name caches have long timeouts; the change takes them back.
TEST_F(CoherenceTest, KernelCachesFollowChanges) {
  StartTwo();
  EXPECT_EQ(Get(*two_ / "f"), "error No such file or directory");
  Put(*one_ / "f", "1");
  EXPECT_TRUE(Eventually([&] { return Get(*two_ / "f") == "1"; }));
  ASSERT_EQ(::chmod((*one_ / "f").c_str(), 0400), 0);
  EXPECT_TRUE(Eventually([&] { return (StatOf(*two_ / "f").st_mode & 07777) == 0400; }));
  ASSERT_EQ(::rename((*one_ / "f").c_str(), (*one_ / "g").c_str()), 0);
  EXPECT_TRUE(Eventually([&] { return ::access((*two_ / "f").c_str(), F_OK) != 0; }));
  EXPECT_TRUE(Eventually([&] { return Get(*two_ / "g") == "1"; }));
  ASSERT_EQ(::unlink((*one_ / "g").c_str()), 0);
  EXPECT_TRUE(Eventually([&] { return NamesIn(two_->path()).empty(); }));
  EXPECT_TRUE(Eventually([&] { return ::access((*two_ / "g").c_str(), F_OK) != 0; }));
}

// A second look at a name that does not exist asks neither the daemon nor the hub.
TEST_F(CoherenceTest, MissingNameIsConfirmedOnce) {
  EXPECT_NE(::access((*one_ / "missing").c_str(), F_OK), 0);
  const uint64_t asked = one_->replica().barriers();
  EXPECT_GE(asked, 1U);
  for (int i = 0; i < 100; ++i) EXPECT_NE(::access((*one_ / "missing").c_str(), F_OK), 0);
  EXPECT_EQ(one_->replica().barriers(), asked);
}

// A handle reads one version to the end; an open by name gets the new one, under the same st_ino.
TEST_F(CoherenceTest, HandleKeepsItsVersion) {
  StartTwo();
  Put(*one_ / "f", "the old version");
  const UniqueFd old = Open(*two_ / "f", O_RDONLY);
  const ino_t number = StatOf(*two_ / "f").st_ino;
  EXPECT_EQ(ReadAll(old.get()), "the old version");
  Put(*one_ / "f", "the new version, longer");
  EXPECT_TRUE(Eventually([&] { return Get(*two_ / "f") == "the new version, longer"; }));
  EXPECT_EQ(ReadAll(old.get()), "the old version");
  EXPECT_EQ(StatOf(*two_ / "f").st_ino, number);
  EXPECT_EQ(StatOf(*two_ / "f").st_size, 23);
  // And again, with both open.
  const UniqueFd second = Open(*two_ / "f", O_RDONLY);
  Put(*one_ / "f", "third");
  EXPECT_TRUE(Eventually([&] { return Get(*two_ / "f") == "third"; }));
  EXPECT_EQ(ReadAll(old.get()), "the old version");
  EXPECT_EQ(ReadAll(second.get()), "the new version, longer");
}

// What only appends grows under the handles that have it open, as tail -f expects.
TEST_F(CoherenceTest, AppendGrowsUnderItsReaders) {
  StartTwo();
  std::string text = "line 1\n";
  Put(*one_ / "log", text);
  const UniqueFd reader = Open(*two_ / "log", O_RDONLY);
  EXPECT_EQ(ReadAll(reader.get()), text);
  for (int i = 2; i < 6; ++i) {
    const std::string line = "line " + std::to_string(i) + std::string(300'000, '.') + "\n";
    text += line;
    const UniqueFd writer = Open(*one_ / "log", O_WRONLY | O_APPEND);
    ASSERT_EQ(::write(writer.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  EXPECT_TRUE(Eventually([&] { return ReadAll(reader.get()) == text; }));
  EXPECT_EQ(Get(*two_ / "log"), text);
  EXPECT_TRUE(two_->data().write_back().queued().empty());  // A copy is nothing to save.
}

// Writers at two nodes, different blocks, the same time: the one that closes last keeps both.
TEST_F(CoherenceTest, LateWriterMergesBlocks) {
  StartTwo();
  std::string text(3 * kBlockBytes, 'a');
  Put(*one_ / "f", text);
  ASSERT_EQ(Get(*two_ / "f"), text);
  UniqueFd first = Open(*one_ / "f", O_RDWR);
  UniqueFd second = Open(*two_ / "f", O_RDWR);
  ASSERT_EQ(::pwrite(first.get(), "11", 2, 0), 2);
  ASSERT_EQ(::pwrite(second.get(), "22", 2, 2 * kBlockBytes), 2);
  first.Reset();
  second.Reset();
  text.replace(0, 2, "11");
  text.replace(2 * kBlockBytes, 2, "22");
  EXPECT_TRUE(Eventually([&] { return Get(*one_ / "f") == text; }));
  EXPECT_TRUE(Eventually([&] { return Get(*two_ / "f") == text; }));
}

// Whoever rewrote the whole file and closes last wins all of it.
TEST_F(CoherenceTest, LateWholeRewriteWins) {
  StartTwo();
  Put(*one_ / "f", "base");
  ASSERT_EQ(Get(*two_ / "f"), "base");
  UniqueFd late = Open(*two_ / "f", O_WRONLY | O_TRUNC);
  ASSERT_EQ(::write(late.get(), "late", 4), 4);
  Put(*one_ / "f", "early and longer");
  late.Reset();
  EXPECT_TRUE(Eventually([&] { return Get(*one_ / "f") == "late"; }));
  EXPECT_EQ(Get(*two_ / "f"), "late");
}

// A lock of one node keeps the other out until it is dropped.
TEST_F(CoherenceTest, LocksCountAcrossNodes) {
  StartTwo();
  Put(*one_ / "f", "x");
  const UniqueFd here = Open(*one_ / "f", O_RDWR);
  UniqueFd there = Open(*two_ / "f", O_RDWR);
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_len = 10;
  ASSERT_EQ(::fcntl(there.get(), F_OFD_SETLK, &range), 0);
  EXPECT_EQ(::fcntl(here.get(), F_OFD_SETLK, &range), -1);
  EXPECT_EQ(errno, EAGAIN);
  there.Reset();  // An OFD lock goes with its last descriptor.
  EXPECT_TRUE(Eventually([&] { return ::fcntl(here.get(), F_OFD_SETLK, &range) == 0; }));
}

TEST_F(CoherenceTest, ResetOfTheReplicaInvalidatesEverything) {
  Put(*one_ / "f", "x");
  EXPECT_NE(::access((*one_ / "missing").c_str(), F_OK), 0);
  const uint64_t asked = one_->replica().barriers();
  one_->mount().OnReset();
  // Both names are asked for again.
  EXPECT_TRUE(Eventually([&] {
    (void)::access((*one_ / "missing").c_str(), F_OK);
    return one_->replica().barriers() > asked;
  }));
  EXPECT_EQ(Get(*one_ / "f"), "x");
}

}  // namespace
}  // namespace quadfs::test
