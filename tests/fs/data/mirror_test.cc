#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "fs/hub/tree_mirror.h"
#include "tests/support/fs_data_campus.h"

namespace quadfs::fs {
namespace {

using test::Content;
using test::InTime;
using test::IsOk;
using test::MakeContent;

class MirrorTest : public testing::Test {
 protected:
  /// A file of the namespace that is in the store.
  InodeId Store(InodeId parent, const std::string& name, uint64_t seed) {
    const InodeId inode = names_.MakeFile(parent, name);
    contents_[inode] = MakeContent(500 + seed, seed);
    node_.Write(inode, contents_[inode]);
    EXPECT_THAT(node_.data->write_back().WaitDrained(inode, InTime()), IsOk());
    return inode;
  }
  void Tell(std::vector<InodeId> inodes) {
    metadata::Change change;
    change.attributes = std::move(inodes);
    hub_.data->OnChange(change);
  }
  /// Until the file with this content stands there.
  void ExpectAt(const std::string& path, InodeId inode) {
    const auto by = InTime();
    while (!by.Passed()) {
      if (std::filesystem::is_regular_file(hub_.PathInStore(path)) &&
          test::ReadContent(hub_.PathInStore(path)) == contents_[inode] &&
          hub_.data->status().mirror_waiting == 0) {
        return;
      }
      std::this_thread::yield();
    }
    ADD_FAILURE() << path << " does not hold inode " << inode.value << "; "
                  << hub_.data->status().problem;
  }
  void ExpectGone(const std::string& path) {
    const auto by = InTime();
    while (std::filesystem::exists(hub_.PathInStore(path)) && !by.Passed()) {
      std::this_thread::yield();
    }
    EXPECT_FALSE(std::filesystem::exists(hub_.PathInStore(path))) << path;
    while (hub_.data->status().mirror_waiting > 0 && !by.Passed()) std::this_thread::yield();
  }

  test::TestNamespace names_;
  test::TestCampusHub hub_{1, names_};
  test::TestCampusNode node_{5, names_, hub_};
  std::map<InodeId, Content> contents_;
};

TEST_F(MirrorTest, RenameRemoveAndAttributesFollow) {
  const InodeId directory = names_.MakeDirectory(kRootInode, "d");
  const InodeId file = Store(directory, "x", 1);
  ExpectAt("d/x", file);
  names_.Rename(file, kRootInode, "y");
  names_.Edit(file, [](auto& attributes) {
    attributes.mode = 0640;
    attributes.mtime_ns = 1'600'000'000'000'000'000;
  });
  Tell({file});
  ExpectAt("y", file);
  ExpectGone("d/x");
  struct stat status {};
  ASSERT_EQ(::stat(hub_.PathInStore("y").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0640U);
  EXPECT_EQ(status.st_mtim.tv_sec, 1'600'000'000);
  names_.Remove(file);
  names_.Remove(directory);
  Tell({directory, file});
  ExpectGone("y");
  ExpectGone("d");
  EXPECT_FALSE(hub_.store->HeldGeneration(file));
}

TEST_F(MirrorTest, ADirectoryMovesWithAllBelow) {
  const InodeId top = names_.MakeDirectory(kRootInode, "top");
  const InodeId deep = names_.MakeDirectory(top, "deep");
  const InodeId other = names_.MakeDirectory(kRootInode, "other");
  const InodeId file = Store(deep, "f", 1), beside = Store(top, "g", 2);
  names_.Rename(top, other, "moved");
  Tell({top});
  ExpectAt("other/moved/deep/f", file);
  ExpectAt("other/moved/g", beside);
  ExpectGone("top");
  // What is stored behind it goes to the right place at once.
  const InodeId late = Store(deep, "late", 3);
  ExpectAt("other/moved/deep/late", late);
}

// Two files change names, two directories as well, told in any order: nothing is lost.
TEST_F(MirrorTest, ExchangedNamesDoNotOverwriteEachOther) {
  const InodeId a = Store(kRootInode, "a", 1), b = Store(kRootInode, "b", 2);
  const InodeId d = names_.MakeDirectory(kRootInode, "d"),
                e = names_.MakeDirectory(kRootInode, "e");
  const InodeId in_d = Store(d, "x", 3), in_e = Store(e, "x", 4);
  names_.Rename(a, kRootInode, "b");
  names_.Rename(b, kRootInode, "a");
  names_.Rename(d, kRootInode, "e");
  names_.Rename(e, kRootInode, "d");
  Tell({b, e, a, d});
  ExpectAt("b", a);
  ExpectAt("a", b);
  ExpectAt("e/x", in_d);
  ExpectAt("d/x", in_e);
}

// b moved out of a, then a into b; told the wrong way round.
TEST_F(MirrorTest, DirectoriesThatTurnInsideOutConverge) {
  const InodeId a = names_.MakeDirectory(kRootInode, "a");
  const InodeId b = names_.MakeDirectory(a, "b");
  const InodeId in_a = Store(a, "fa", 1), in_b = Store(b, "fb", 2);
  ExpectAt("a/b/fb", in_b);
  names_.Rename(b, kRootInode, "b");
  names_.Rename(a, b, "a");
  Tell({a, b});
  ExpectAt("b/fb", in_b);
  ExpectAt("b/a/fa", in_a);
}

// The usual way to replace a file: a new one is renamed over it.
TEST_F(MirrorTest, AFileRenamedOverAnotherTakesItsPlace) {
  const InodeId old_file = Store(kRootInode, "target", 1);
  const InodeId next = Store(kRootInode, "target.tmp", 2);
  names_.Remove(old_file);
  names_.Rename(next, kRootInode, "target");
  Tell({next, old_file});
  ExpectAt("target", next);
  ExpectGone("target.tmp");
  EXPECT_FALSE(hub_.store->HeldGeneration(old_file));
}

// Everything changed while the hub was down: it finds out by itself.
TEST_F(MirrorTest, AtStartTheStoreIsBroughtToTheNamespace) {
  const InodeId directory = names_.MakeDirectory(kRootInode, "d");
  const InodeId moved = Store(directory, "moved", 1), gone = Store(directory, "gone", 2);
  hub_.Kill();
  names_.Rename(directory, kRootInode, "new");
  names_.Rename(moved, directory, "here");
  names_.Remove(gone);
  hub_.Start();
  ExpectAt("new/here", moved);
  ExpectGone("new/gone");
  ExpectGone("d");
}

// Somebody's own file in a directory that goes: it stays, and so does the directory.
TEST_F(MirrorTest, ForeignFilesAreLeftAlone) {
  const InodeId directory = names_.MakeDirectory(kRootInode, "d");
  const InodeId file = Store(directory, "x", 1);
  { std::ofstream(hub_.PathInStore("d/mine")) << "mine"; }
  names_.Remove(file);
  names_.Remove(directory);
  Tell({file, directory});
  ExpectGone("d/x");
  EXPECT_TRUE(std::filesystem::exists(hub_.PathInStore("d/mine")));
}

TEST_F(MirrorTest, MainHasDirectoriesBeforeTheyHaveFiles) {
  const InodeId directory = names_.MakeDirectory(kRootInode, "empty");
  Tell({directory});
  const auto by = InTime();
  while (!std::filesystem::is_directory(hub_.PathInStore("empty")) && !by.Passed()) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(std::filesystem::is_directory(hub_.PathInStore("empty")));
}

}  // namespace
}  // namespace quadfs::fs
