// Names, listings, attributes: every operation of a directory tree, by real system calls.
#include <linux/fs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include <set>

#include "tests/fs/node/node_fixture.h"

namespace quadfs::test {
namespace {

using NamesTest = NodeMountTest;

int Rename2(const std::string& from, const std::string& to, unsigned int flags) {
  return static_cast<int>(
      ::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags));
}

TEST_F(NamesTest, MakeMoveRemove) {
  const std::string directory = *one_ / "d";
  ASSERT_EQ(::mkdir(directory.c_str(), 0751), 0);
  EXPECT_EQ(StatOf(directory).st_mode & 07777, 0751U);
  Put(directory + "/f", "text");
  ASSERT_EQ(::link((directory + "/f").c_str(), (directory + "/l").c_str()), 0);
  EXPECT_EQ(StatOf(directory + "/f").st_nlink, 2U);
  ASSERT_EQ(::symlink("f", (directory + "/s").c_str()), 0);
  EXPECT_EQ(Get(directory + "/s"), "text");
  ASSERT_EQ(::mkfifo((directory + "/p").c_str(), 0600), 0);
  EXPECT_TRUE(S_ISFIFO(StatOf(directory + "/p").st_mode));
  EXPECT_EQ(NamesIn(directory), (std::vector<std::string>{"f", "l", "p", "s"}));
  EXPECT_EQ(::rmdir(directory.c_str()), -1);
  EXPECT_EQ(errno, ENOTEMPTY);
  for (const char* name : {"/f", "/l", "/p", "/s"}) {
    ASSERT_EQ(::unlink((directory + name).c_str()), 0);
  }
  ASSERT_EQ(::rmdir(directory.c_str()), 0);
  EXPECT_EQ(::access(directory.c_str(), F_OK), -1);
}

TEST_F(NamesTest, RenameFlags) {
  Put(*one_ / "a", "A");
  Put(*one_ / "b", "B");
  EXPECT_EQ(Rename2(*one_ / "a", *one_ / "b", RENAME_NOREPLACE), -1);
  EXPECT_EQ(errno, EEXIST);
  ASSERT_EQ(Rename2(*one_ / "a", *one_ / "b", RENAME_EXCHANGE), 0);
  EXPECT_EQ(Get(*one_ / "a"), "B");
  EXPECT_EQ(Get(*one_ / "b"), "A");
  EXPECT_EQ(Rename2(*one_ / "a", *one_ / "b", RENAME_WHITEOUT), -1);
  EXPECT_EQ(errno, EINVAL);
  ASSERT_EQ(Rename2(*one_ / "a", *one_ / "b", 0), 0);
  EXPECT_EQ(Get(*one_ / "b"), "B");
}

// Each staying name exactly once, whatever comes and goes between two reads of one listing.
TEST_F(NamesTest, ListingUnderChurn) {
  std::set<std::string> staying;
  for (int i = 0; i < 2000; ++i) {
    const std::string name = "stay" + std::to_string(i);
    ASSERT_EQ(::mknod((*one_ / name).c_str(), S_IFREG | 0644, 0), 0);
    staying.insert(name);
    ASSERT_EQ(::mknod((*one_ / ("go" + std::to_string(i))).c_str(), S_IFREG | 0644, 0), 0);
  }
  DIR* const directory = ::opendir(one_->path().c_str());
  ASSERT_NE(directory, nullptr);
  std::multiset<std::string> seen;
  int step = 0;
  while (const dirent* entry = ::readdir(directory)) {
    if (std::string(entry->d_name).starts_with("stay")) seen.insert(entry->d_name);
    if (++step > 2000) continue;
    ::unlink((*one_ / ("go" + std::to_string(step))).c_str());
    ::rename((*one_ / ("go" + std::to_string(2000 - step))).c_str(),
             (*one_ / ("moved" + std::to_string(step))).c_str());
  }
  EXPECT_EQ(seen, std::multiset<std::string>(staying.begin(), staying.end()));
  // rewinddir shows the present, and a remembered position goes on where it was.
  ::rewinddir(directory);
  (void)::readdir(directory);
  const dirent* entry = ::readdir(directory);
  const long position = ::telldir(directory);
  const std::string next = ::readdir(directory)->d_name;
  for (int i = 0; i < 500; ++i) entry = ::readdir(directory);
  ASSERT_NE(entry, nullptr);
  ::seekdir(directory, position);
  EXPECT_EQ(::readdir(directory)->d_name, next);
  ::closedir(directory);
}

TEST_F(NamesTest, Attributes) {
  Put(*one_ / "f", "x");
  const std::string path = *one_ / "f";
  ASSERT_EQ(::chown(path.c_str(), 1000, 1001), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  const struct timespec times[2] = {{.tv_sec = 5'000'000'000, .tv_nsec = 1},
                                    {.tv_sec = -7, .tv_nsec = 999'999'999}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  const struct stat status = StatOf(path);
  EXPECT_EQ(status.st_uid, 1000U);
  EXPECT_EQ(status.st_gid, 1001U);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
  EXPECT_EQ(status.st_atim.tv_sec, 5'000'000'000);
  EXPECT_EQ(status.st_atim.tv_nsec, 1);
  EXPECT_EQ(status.st_mtim.tv_sec, -7);
  EXPECT_EQ(status.st_mtim.tv_nsec, 999'999'999);
  struct statvfs space {};
  ASSERT_EQ(::statvfs(path.c_str(), &space), 0);
  EXPECT_EQ(space.f_namemax, 255U);
  EXPECT_LE(space.f_bavail, space.f_blocks);
}

TEST_F(NamesTest, ExtendedAttributes) {
  Put(*one_ / "f", "x");
  const std::string path = *one_ / "f";
  char value[256] = {};
  EXPECT_EQ(::getxattr(path.c_str(), "user.a", value, sizeof(value)), -1);
  EXPECT_EQ(errno, ENODATA);
  ASSERT_EQ(::setxattr(path.c_str(), "user.a", "12", 2, XATTR_CREATE), 0);
  EXPECT_EQ(::setxattr(path.c_str(), "user.a", "34", 2, XATTR_CREATE), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(::getxattr(path.c_str(), "user.a", value, 1), -1);
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(::getxattr(path.c_str(), "user.a", value, sizeof(value)), 2);
  EXPECT_EQ(::listxattr(path.c_str(), value, sizeof(value)), 7);
  ASSERT_EQ(::removexattr(path.c_str(), "user.a"), 0);
  EXPECT_EQ(::listxattr(path.c_str(), value, sizeof(value)), 0);
}

// Computed attributes are readable by name, not listed, not writable; policies are kept.
TEST_F(NamesTest, VirtualAttributes) {
  Put(*one_ / "f", "x");
  const std::string path = *one_ / "f";
  char value[256] = {};
  const auto get = [&](const char* name) {
    const ssize_t size = ::getxattr(path.c_str(), name, value, sizeof(value));
    return size < 0 ? std::string() : std::string(value, static_cast<size_t>(size));
  };
  EXPECT_EQ(get("user.quad.checksum"), "xxh3-128:" + one_->RowOf("f").root.ToHex());
  EXPECT_EQ(get("user.quad.version"), std::to_string(one_->RowOf("f").generation.value));
  EXPECT_EQ(get("user.quad.state"), "local");
  EXPECT_EQ(get("user.quad.campuses"), "main");
  EXPECT_NE(get("user.quad.locations"), "");
  EXPECT_EQ(::getxattr(path.c_str(), "user.quad.unknown", value, sizeof(value)), -1);
  EXPECT_EQ(errno, ENODATA);
  EXPECT_EQ(::listxattr(path.c_str(), value, sizeof(value)), 0);
  EXPECT_EQ(::setxattr(path.c_str(), "user.quad.state", "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  ASSERT_EQ(::setxattr(path.c_str(), "user.quad.policy.sync", "1", 1, 0), 0);
  EXPECT_EQ(get("user.quad.policy.sync"), "1");
}

// A name that another node makes between lookup and create: O_EXCL says so, else it is opened.
TEST_F(NamesTest, CreateRace) {
  metadata::Operation make;
  make.kind = metadata::OpKind::kCreate;
  make.parent = kRootInode;
  make.inode = cluster_->names.NextInode();
  make.name = "f";
  make.mode = 0644;
  EXPECT_EQ(::access((*one_ / "f").c_str(), F_OK), -1);  // The kernel remembers its absence.
  ASSERT_THAT(cluster_->names.Submit(make, &one_->replica()),
              IsOk());  // As if invalidation is late.
  EXPECT_EQ(::open((*one_ / "f").c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644), -1);
  EXPECT_EQ(errno, EEXIST);
  const UniqueFd fd = Open(*one_ / "f", O_WRONLY | O_CREAT);
  EXPECT_EQ(StatOf(*one_ / "f").st_ino, make.inode.value);
}

TEST_F(NamesTest, UnknownMountOptionIsRefused) {
  fs::NodeMount::Options options;
  options.extra_options = "nosuid,_netdev,nofail,config=/x,no_such_option";
  two_ = Make(2, options);
  EXPECT_THAT(two_->Start(), IsError(ErrorCode::kInvalidArgument));
  two_.reset();
  options.extra_options = "ro,nosuid,_netdev,nofail,config=/x,x-systemd.automount";
  two_ = Make(3, options);
  ASSERT_THAT(two_->Start(), IsOk());
  EXPECT_EQ(::mkdir((*two_ / "d").c_str(), 0755), -1);
  EXPECT_EQ(errno, EROFS);
}

}  // namespace
}  // namespace quadfs::test
