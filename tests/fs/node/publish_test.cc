// What becomes of written bytes: at close, while the hub is away, after a restart.
#include <sys/wait.h>
#include <sys/xattr.h>

#include "tests/fs/node/node_fixture.h"

namespace quadfs::test {
namespace {

using PublishTest = NodeMountTest;

TEST_F(PublishTest, ClosePublishesOnce) {
  Put(*one_ / "f", "hello");
  const auto row = one_->RowOf("f");
  EXPECT_EQ(row.size, 5U);
  EXPECT_EQ(row.root, cache::Manifest::Of(std::as_bytes(std::span("hello", 5))).Root());
  EXPECT_TRUE(Eventually([&] { return one_->data().write_back().queued().size() == 1; }));
  // Opened for writing but left as it was: the same version.
  { const UniqueFd fd = Open(*one_ / "f", O_RDWR); }
  EXPECT_TRUE(Eventually([&] { return one_->mount().status().open_files == 0; }));
  EXPECT_EQ(one_->RowOf("f").generation, row.generation);
  // Written with the same bytes: still the same version, but a newer time.
  Put(*one_ / "f", "hello");
  EXPECT_TRUE(Eventually([&] { return one_->mount().status().open_files == 0; }));
  EXPECT_EQ(one_->RowOf("f").root, row.root);
  EXPECT_GT(one_->RowOf("f").mtime_ns, row.mtime_ns);
  EXPECT_EQ(Get(*one_ / "f"), "hello");
}

// An empty file that nobody wrote into is a name, nothing more: no version, no object.
TEST_F(PublishTest, UntouchedNewFileHasNoVersion) {
  { const UniqueFd fd = Open(*one_ / "f", O_WRONLY | O_CREAT | O_EXCL); }
  EXPECT_TRUE(Eventually([&] { return one_->cache().status().objects == 0; }));
  EXPECT_EQ(one_->RowOf("f").generation.value, 0U);
  EXPECT_EQ(Get(*one_ / "f"), "");
}

TEST_F(PublishTest, UnlinkedFileIsNeverPublishedAndLeavesNothing) {
  UniqueFd fd = Open(*one_ / "f", O_RDWR | O_CREAT);
  ASSERT_EQ(::write(fd.get(), "bytes", 5), 5);
  ASSERT_EQ(::unlink((*one_ / "f").c_str()), 0);
  ASSERT_EQ(::ftruncate(fd.get(), 3), 0);
  ASSERT_EQ(::fchmod(fd.get(), 0600), 0);
  ASSERT_EQ(::fsetxattr(fd.get(), "user.a", "b", 1, 0), 0);
  struct stat status {};
  ASSERT_EQ(::fstat(fd.get(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0U);
  EXPECT_EQ(status.st_size, 3);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
  EXPECT_EQ(ReadAll(fd.get()), "byt");
  fd.Reset();
  EXPECT_TRUE(Eventually([&] { return one_->cache().status().objects == 0; }));
  EXPECT_TRUE(one_->data().write_back().queued().empty());
}

// The hub is away: close still succeeds, the bytes show here, and go out when it is back.
TEST_F(PublishTest, CloseWithoutTheHubIsMadeGood) {
  Put(*one_ / "f", "before");
  UniqueFd fd = Open(*one_ / "f", O_WRONLY);
  one_->replica().Cut();
  ASSERT_EQ(::pwrite(fd.get(), "BEFORE!", 7, 0), 7);
  EXPECT_EQ(::close(fd.Release()), 0);
  EXPECT_EQ(Get(*one_ / "f"), "BEFORE!");
  EXPECT_EQ(StatOf(*one_ / "f").st_size, 7);
  EXPECT_EQ(one_->RowOf("f").size, 6U);
  EXPECT_TRUE(one_->mount().IsDirty(one_->RowOf("f").inode));
  char state[16] = {};
  EXPECT_EQ(::getxattr((*one_ / "f").c_str(), "user.quad.state", state, sizeof(state)), 5);
  EXPECT_STREQ(state, "dirty");
  one_->replica().Heal();
  EXPECT_TRUE(Eventually([&] { return one_->RowOf("f").size == 7; }));
  EXPECT_TRUE(Eventually([&] { return !one_->mount().IsDirty(one_->RowOf("f").inode); }));
}

// The daemon ends while the hub is away: its next run shows and publishes what was written.
TEST_F(PublishTest, UnpublishedBytesSurviveARestart) {
  Put(*one_ / "f", "old");
  UniqueFd fd = Open(*one_ / "f", O_WRONLY | O_TRUNC);
  ASSERT_EQ(::write(fd.get(), "newer", 5), 5);
  ASSERT_EQ(::fsync(fd.get()), 0);
  one_->replica().Cut();
  fd.Reset();
  one_->Stop();
  EXPECT_EQ(one_->RowOf("f").size, 3U);
  ASSERT_THAT(one_->Start(), IsOk());
  EXPECT_EQ(Get(*one_ / "f"), "newer");
  EXPECT_TRUE(Eventually([&] { return one_->RowOf("f").size == 5; }));
}

// The publish was done but its answer lost: it is recognised, not done twice, nor called a
// conflict.
TEST_F(PublishTest, LostAnswerIsNotAConflict) {
  UniqueFd fd = Open(*one_ / "f", O_WRONLY | O_CREAT);
  ASSERT_EQ(::write(fd.get(), "once", 4), 4);
  one_->replica().LoseNextAnswer();
  fd.Reset();
  EXPECT_EQ(Get(*one_ / "f"), "once");
  const Generation first = one_->RowOf("f").generation;
  EXPECT_NE(first.value, 0U);
  EXPECT_TRUE(Eventually([&] { return !one_->mount().IsDirty(one_->RowOf("f").inode); }));
  EXPECT_EQ(one_->RowOf("f").generation, first);
  EXPECT_EQ(one_->data().write_back().queued().size(), 1U);
}

// Passthrough maps the local file itself, beyond the last close: stores through such a mapping are
// published too.
TEST_F(PublishTest, MappingOutlivesItsHandles) {
  Put(*one_ / "f", std::string(8192, 'a'));
  UniqueFd fd = Open(*one_ / "f", O_RDWR);
  void* const map = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  static_cast<char*>(map)[0] = 'b';
  fd.Reset();
  static_cast<char*>(map)[1] = 'c';
  static_cast<char*>(map)[5000] = 'd';
  ASSERT_EQ(::munmap(map, 8192), 0);
  std::string expected(8192, 'a');
  expected.replace(0, 2, "bc");
  expected[5000] = 'd';
  const auto root = cache::Manifest::Of(std::as_bytes(std::span(expected))).Root();
  EXPECT_TRUE(Eventually([&] { return one_->RowOf("f").root == root; }));
  EXPECT_EQ(Get(*one_ / "f"), expected);
}

// A time set by hand on a file being written is what the published version has.
TEST_F(PublishTest, ExplicitTimeSurvivesPublishing) {
  UniqueFd fd = Open(*one_ / "f", O_WRONLY | O_CREAT);
  ASSERT_EQ(::write(fd.get(), "x", 1), 1);
  const struct timespec times[2] = {{.tv_sec = 1, .tv_nsec = 2}, {.tv_sec = 1000, .tv_nsec = 123}};
  ASSERT_EQ(::futimens(fd.get(), times), 0);
  fd.Reset();
  EXPECT_EQ(one_->RowOf("f").mtime_ns, 1000'000'000'123);
  EXPECT_EQ(StatOf(*one_ / "f").st_mtim.tv_nsec, 123);
  const struct timespec epoch[2] = {{}, {}};
  fd = Open(*one_ / "f", O_WRONLY);
  ASSERT_EQ(::pwrite(fd.get(), "y", 1, 0), 1);
  ASSERT_EQ(::futimens(fd.get(), epoch), 0);
  fd.Reset();
  EXPECT_EQ(one_->RowOf("f").mtime_ns, 0);
}

TEST_F(PublishTest, TruncateByNamePublishes) {
  Put(*one_ / "f", "123456");
  ASSERT_EQ(::truncate((*one_ / "f").c_str(), 4), 0);
  EXPECT_EQ(one_->RowOf("f").size, 4U);
  EXPECT_EQ(Get(*one_ / "f"), "1234");
  ASSERT_EQ(::truncate((*one_ / "f").c_str(), 0), 0);
  EXPECT_EQ(one_->RowOf("f").size, 0U);
  EXPECT_EQ(Get(*one_ / "f"), "");
}

// Written by somebody else than root: set-id bits go, at once and for good.
TEST_F(PublishTest, WriteByAnotherClearsSetId) {
  Put(*one_ / "f", "x");
  ASSERT_EQ(::chmod((*one_ / "f").c_str(), 06777), 0);
  const std::string path = *one_ / "f";
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(12345) != 0 || ::setuid(12345) != 0) ::_exit(2);
    const int fd = ::open(path.c_str(), O_WRONLY);
    struct stat status {};
    const bool good = fd >= 0 && ::write(fd, "y", 1) == 1 && ::fstat(fd, &status) == 0 &&
                      (status.st_mode & S_ISUID) == 0;
    ::close(fd);
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(StatOf(path).st_mode & 07777, 0777U);
}

}  // namespace
}  // namespace quadfs::test
