#include "cache/tree_store.h"

#include <fstream>
#include <limits>
#include <thread>

#include "tests/cache/tree_store_fixture.h"

namespace quadfs::cache {
namespace {

using test::IsError;
using test::IsOk;
using test::RandomBytes;

constexpr size_t kMiB = kBlockBytes;

TEST_F(TreeStoreTest, ACommittedFileIsPlainAndComplete) {
  const Bytes content = RandomBytes(3 * kMiB + 17, 1);
  Put(Id(7), content, "datasets/x/a.bin");
  EXPECT_EQ(Content("datasets/x/a.bin"), content);
  struct stat status {};
  ASSERT_EQ(::stat(Path("datasets/x/a.bin").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0640U);
  EXPECT_EQ(status.st_mtim.tv_sec, 1'600'000'000);
  EXPECT_EQ(status.st_mtim.tv_nsec, 123'456'789);
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(store_->Holds(Id(7)));
    EXPECT_FALSE(store_->Holds(Id(7, 2)));
    EXPECT_EQ(store_->HeldGeneration(InodeId(7)), Generation(1));
    EXPECT_EQ(*store_->HeldPath(InodeId(7)), "datasets/x/a.bin");
    EXPECT_THAT(store_->OpenObject(Id(7)), IsOk());
    EXPECT_EQ(*store_->ReadManifest(Id(7)), Manifest::Of(content));
    for (uint64_t i = 0; i < 4; ++i) {
      const auto block = store_->ReadBlock(Id(7), i);
      ASSERT_THAT(block, IsOk());
      EXPECT_TRUE(std::ranges::equal(*block, test::BlockOf(content, i)));
    }
    EXPECT_THAT(store_->ReadBlock(Id(7), 4), IsError(ErrorCode::kNotFound));
    EXPECT_THAT(store_->OpenObject(Id(7, 2)), IsError(ErrorCode::kNotFound));
    Reopen();
  }
  EXPECT_THAT(store_->Begin(Id(7), Manifest::Of(content)), IsError(ErrorCode::kExists));
  EXPECT_EQ(store_->status().problem, "");
}

TEST_F(TreeStoreTest, LargeManifestsAndHoles) {
  Bytes content(40 * kMiB + 1);
  const Bytes piece = RandomBytes(kMiB, 2);
  std::ranges::copy(piece, content.begin() + 11 * kMiB);
  Put(Id(1), content, "sparse");
  EXPECT_EQ(Content("sparse"), content);
  struct stat status {};
  ASSERT_EQ(::stat(Path("sparse").c_str(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, static_cast<blkcnt_t>(2 * kMiB));
  Reopen();
  EXPECT_EQ(*store_->ReadManifest(Id(1)), Manifest::Of(content));
  // A lost manifest is computed again from the content that the row's root vouches for.
  std::filesystem::remove_all(Path(".quadfs/manifests"));
  Reopen();
  EXPECT_EQ(*store_->ReadManifest(Id(1)), Manifest::Of(content));
}

TEST_F(TreeStoreTest, EmptyFilesAndLongNames) {
  const std::string name(255, 'n');
  Put(Id(1), {}, name + "/" + name);
  EXPECT_TRUE(Exists(name + "/" + name));
  std::string deep;  // Longer than the kernel takes at once.
  for (int i = 0; i < 20; ++i) deep += std::string(250, static_cast<char>('a' + i)) + "/";
  const Bytes content = RandomBytes(100, 3);
  Put(Id(2), content, deep + "f");
  EXPECT_EQ(*store_->HeldPath(InodeId(2)), deep + "f");
  EXPECT_THAT(store_->ReadBlock(Id(2), 0), IsOk());
}

TEST_F(TreeStoreTest, WrongPathsAreRefused) {
  const Bytes content = RandomBytes(10, 4);
  const auto incoming = Begin(Id(1), content);
  Send(*incoming, content);
  for (const char* path :
       {"", "/a", "a//b", "a/", "..", "a/../b", ".", "a/.", ".quadfs/x", ".quadfs"}) {
    EXPECT_THAT(incoming->Commit(At(path)), IsError(ErrorCode::kInvalidArgument)) << path;
    EXPECT_THAT(store_->MakeDirectory(path, 0755, 0, 0), IsError(ErrorCode::kInvalidArgument));
  }
  EXPECT_THAT(incoming->Commit(At(std::string(256, 'x'))), IsError(ErrorCode::kNameTooLong));
  EXPECT_THAT(incoming->Commit(At("fine")), IsOk());
}

TEST_F(TreeStoreTest, AnUploadTakesOnlyWhatMatchesAndCommitsOnlyWhenWhole) {
  const Bytes content = RandomBytes(2 * kMiB, 5);
  const auto incoming = Begin(Id(1), content);
  EXPECT_THAT(incoming->WriteBlock(0, test::BlockOf(content, 1)), IsError(ErrorCode::kCorruption));
  EXPECT_THAT(incoming->WriteBlock(2, test::BlockOf(content, 1)),
              IsError(ErrorCode::kInvalidArgument));
  ASSERT_THAT(incoming->WriteBlock(0, test::BlockOf(content, 0)), IsOk());
  EXPECT_EQ(incoming->Missing(10), std::vector<uint64_t>{1});
  EXPECT_THAT(incoming->Commit(At("f")), IsError(ErrorCode::kNotFound));
  EXPECT_FALSE(Exists("f"));
  EXPECT_EQ(Begin(Id(1), content), incoming);  // Shared.
  EXPECT_THAT(store_->Begin(Id(1), Manifest::Of(RandomBytes(5, 6))),
              IsError(ErrorCode::kCorruption));
}

// Damage between write and commit is found when it is read back, and only that is sent again.
TEST_F(TreeStoreTest, AByteFlippedBeforeCommitIsSentAgain) {
  const Bytes content = RandomBytes(3 * kMiB, 7);
  const auto incoming = Begin(Id(1), content);
  Send(*incoming, content);
  test::FlipByte(Path(".quadfs/incoming/" + ObjectName(Id(1))), kMiB + 9);
  EXPECT_THAT(incoming->Commit(At("f")), IsError(ErrorCode::kCorruption));
  EXPECT_FALSE(Exists("f"));
  EXPECT_FALSE(store_->Holds(Id(1)));
  EXPECT_EQ(incoming->Missing(10), std::vector<uint64_t>{1});
  Send(*incoming, content);
  ASSERT_THAT(incoming->Commit(At("f")), IsOk());
  EXPECT_EQ(Content("f"), content);
  EXPECT_THAT(incoming->WriteBlock(0, test::BlockOf(content, 0)), IsError(ErrorCode::kStale));
}

TEST_F(TreeStoreTest, AByteFlippedInAHeldFileIsNeverRead) {
  const Bytes content = RandomBytes(3 * kMiB, 8);
  Put(Id(1), content, "f");
  ASSERT_THAT(store_->ReadBlock(Id(1), 1), IsOk());
  test::FlipByte(Path("f"), kMiB + 9);
  EXPECT_THAT(store_->ReadBlock(Id(1), 1), IsError(ErrorCode::kCorruption));
  EXPECT_THAT(store_->OpenObject(Id(1)), IsError(ErrorCode::kStale));
  Reopen();
  EXPECT_THAT(store_->OpenObject(Id(1)), IsError(ErrorCode::kStale));
  EXPECT_THAT(store_->ReadBlock(Id(1), 0), IsError(ErrorCode::kStale));
}

// A touch, or a copy restored from a backup, is still the object: its content says so.
TEST_F(TreeStoreTest, TouchedAndRestoredFilesAreRecognised) {
  const Bytes content = RandomBytes(2 * kMiB, 9);
  Put(Id(1), content, "f");
  std::filesystem::last_write_time(Path("f"), std::filesystem::file_time_type::clock::now());
  EXPECT_THAT(store_->OpenObject(Id(1)), IsOk());
  std::filesystem::copy_file(Path("f"), Path("copy"));
  std::filesystem::rename(Path("copy"), Path("f"));
  EXPECT_THAT(store_->OpenObject(Id(1)), IsOk());
  std::filesystem::resize_file(Path("f"), 5);
  EXPECT_THAT(store_->OpenObject(Id(1)), IsError(ErrorCode::kStale));
  std::filesystem::remove(Path("f"));
  EXPECT_THAT(store_->OpenObject(Id(1)), IsError(ErrorCode::kStale));
}

TEST_F(TreeStoreTest, ANewVersionReplacesTheOldOneAndReadersKeepTheirs) {
  const Bytes first = RandomBytes(kMiB, 10);
  const Bytes second = RandomBytes(2 * kMiB, 11);
  Put(Id(1, 1), first, "d/f");
  const auto reader = store_->OpenObject(Id(1, 1));
  ASSERT_THAT(reader, IsOk());
  Put(Id(1, 2), second, "d/f");
  EXPECT_EQ(Content("d/f"), second);
  EXPECT_TRUE(store_->Holds(Id(1, 2)));
  EXPECT_FALSE(store_->Holds(Id(1, 1)));
  EXPECT_THAT(store_->ReadBlock(Id(1, 1), 0), IsError(ErrorCode::kNotFound));
  Bytes old(first.size());
  ASSERT_EQ(::pread(reader->get(), old.data(), old.size(), 0), static_cast<ssize_t>(old.size()));
  EXPECT_EQ(old, first);
  EXPECT_EQ(TrashCount(), 0U);
  // At another path: the old version does not stay behind.
  Put(Id(1, 3), first, "e/g");
  EXPECT_FALSE(Exists("d/f"));
  EXPECT_EQ(Content("e/g"), first);
  EXPECT_EQ(TrashCount(), 0U);
}

TEST_F(TreeStoreTest, MovedFilesKeepTheirObject) {
  const Bytes content = RandomBytes(100, 12);
  Put(Id(1), content, "a/f");
  ASSERT_THAT(store_->MoveFile(InodeId(1), "b/c/g"), IsOk());
  ASSERT_THAT(store_->MoveFile(InodeId(1), "b/c/g"), IsOk());
  EXPECT_FALSE(Exists("a/f"));
  EXPECT_EQ(Content("b/c/g"), content);
  EXPECT_EQ(*store_->HeldPath(InodeId(1)), "b/c/g");
  EXPECT_THAT(store_->OpenObject(Id(1)), IsOk());
  EXPECT_THAT(store_->MoveFile(InodeId(2), "x"), IsError(ErrorCode::kNotFound));
  // An admin moved it where we were told to move it: only the row was behind.
  std::filesystem::rename(Path("b/c/g"), Path("a/h"));
  ASSERT_THAT(store_->MoveFile(InodeId(1), "a/h"), IsOk());
  EXPECT_THAT(store_->OpenObject(Id(1)), IsOk());
}

TEST_F(TreeStoreTest, AMovedDirectoryTakesAllAlong) {
  for (uint64_t i = 1; i <= 20; ++i) {
    Put(Id(i), RandomBytes(10 + i, i),
        "old/sub" + std::to_string(i % 3) + "/f" + std::to_string(i));
  }
  const size_t syncs = index_.syncs();
  ASSERT_THAT(store_->MoveDirectory("old", "far/new"), IsOk());
  EXPECT_LE(index_.syncs() - syncs, 2U);  // However many files are in it.
  ASSERT_THAT(store_->MoveDirectory("far/new/sub1", "sub"), IsOk());
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 1; i <= 20; ++i) {
      const std::string expected =
          (i % 3 == 1 ? "sub/f" : "far/new/sub" + std::to_string(i % 3) + "/f") + std::to_string(i);
      EXPECT_EQ(*store_->HeldPath(InodeId(i)), expected);
      EXPECT_THAT(store_->OpenObject(Id(i)), IsOk());
    }
    Reopen();
  }
  EXPECT_THAT(store_->MoveDirectory("never", "x"), IsOk());
  EXPECT_THAT(store_->MoveDirectory("far", "far/new/y"), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(store_->MoveDirectory("sub", "far"), IsError(ErrorCode::kNotEmpty));
  EXPECT_THAT(store_->OpenObject(Id(1)), IsOk());
  // Over an empty directory that had held files once.
  Put(Id(50), RandomBytes(5, 50), "empty/f");
  ASSERT_THAT(store_->Remove(InodeId(50)), IsOk());
  ASSERT_THAT(store_->MoveDirectory("sub", "empty"), IsOk());
  EXPECT_EQ(*store_->HeldPath(InodeId(1)), "empty/f1");
  Reopen();
  EXPECT_EQ(*store_->HeldPath(InodeId(1)), "empty/f1");
  EXPECT_THAT(store_->OpenObject(Id(1)), IsOk());
}

TEST_F(TreeStoreTest, DirectoriesAreMadeAndRemoved) {
  ASSERT_THAT(store_->MakeDirectory("a/b", 0750, ::getuid(), ::getgid()), IsOk());
  struct stat status {};
  ASSERT_EQ(::stat(Path("a/b").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0750U);
  ASSERT_THAT(store_->MakeDirectory("a/b", 0700, ::getuid(), ::getgid()), IsOk());
  Put(Id(1), RandomBytes(5, 1), "a/b/f");
  EXPECT_THAT(store_->RemoveDirectory("a/b"), IsError(ErrorCode::kNotEmpty));
  ASSERT_THAT(store_->Remove(InodeId(1)), IsOk());
  EXPECT_THAT(store_->RemoveDirectory("a/b"), IsOk());
  EXPECT_THAT(store_->RemoveDirectory("a/b"), IsOk());
  EXPECT_FALSE(Exists("a/b"));
}

TEST_F(TreeStoreTest, AttributesChangeWithoutMakingTheFileAStranger) {
  Put(Id(1), RandomBytes(5, 1), "f");
  Placement placement = At("ignored");
  placement.mode = 0600;
  placement.mtime_ns = -1'500'000'000;  // Before 1970, half a second.
  ASSERT_THAT(store_->SetAttributes(InodeId(1), placement), IsOk());
  struct stat status {};
  ASSERT_EQ(::stat(Path("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  EXPECT_EQ(status.st_mtim.tv_sec, -2);
  EXPECT_EQ(status.st_mtim.tv_nsec, 500'000'000);
  EXPECT_THAT(store_->OpenObject(Id(1)), IsOk());
}

TEST_F(TreeStoreTest, RemovedFilesStayInTheTrashUntilPurged) {
  Put(Id(1), RandomBytes(5, 1), "f");
  ASSERT_THAT(store_->Remove(InodeId(1)), IsOk());
  ASSERT_THAT(store_->Remove(InodeId(1)), IsOk());
  EXPECT_FALSE(Exists("f"));
  EXPECT_FALSE(store_->Holds(Id(1)));
  EXPECT_EQ(TrashCount(), 1U);
  ASSERT_THAT(store_->PurgeTrash(1), IsOk());
  EXPECT_EQ(TrashCount(), 1U);
  ASSERT_THAT(store_->PurgeTrash(std::numeric_limits<int64_t>::max()), IsOk());
  EXPECT_EQ(TrashCount(), 0U);
}

TEST_F(TreeStoreTest, AbandonedUploadsArePurgedButNotTheOpenOnes) {
  const Bytes content = RandomBytes(kMiB + 1, 1);
  const auto open = Begin(Id(1), content);
  Begin(Id(2), content)->WriteBlock(0, test::BlockOf(content, 0)).value();
  ASSERT_THAT(store_->PurgeTrash(std::numeric_limits<int64_t>::max()), IsOk());
  EXPECT_FALSE(Exists(".quadfs/incoming/" + ObjectName(Id(2))));
  EXPECT_EQ(Begin(Id(2), content)->Missing(9).size(), 2U);
  Send(*open, content);
  EXPECT_THAT(open->Commit(At("f")), IsOk());
}

TEST_F(TreeStoreTest, AbortLeavesNothing) {
  const Bytes content = RandomBytes(kMiB + 1, 1);
  auto incoming = Begin(Id(1), content);
  ASSERT_THAT(incoming->WriteBlock(0, test::BlockOf(content, 0)), IsOk());
  incoming->Abort();
  EXPECT_THAT(incoming->Commit(At("f")), IsError(ErrorCode::kStale));
  EXPECT_FALSE(Exists(".quadfs/incoming/" + ObjectName(Id(1))));
  EXPECT_EQ(Begin(Id(1), content)->Missing(9).size(), 2U);
}

// ---- Strangers

TEST_F(TreeStoreTest, AForeignFileIsSetAsideAndNeverPurged) {
  std::ofstream(Path("f")) << "somebody's";
  Put(Id(1), RandomBytes(5, 1), "f");
  EXPECT_EQ(TrashCount("foreign."), 1U);
  EXPECT_EQ(store_->status().foreign_files, 1U);
  std::ofstream(Path("g")) << "somebody's too";
  ASSERT_THAT(store_->MoveFile(InodeId(1), "g"), IsOk());
  ASSERT_THAT(store_->PurgeTrash(std::numeric_limits<int64_t>::max()), IsOk());
  EXPECT_EQ(TrashCount("foreign."), 2U);
  Reopen();
  EXPECT_EQ(store_->status().foreign_files, 2U);
  // In the place of a held file: not removed with it.
  std::filesystem::remove(Path("g"));
  std::ofstream(Path("other")) << "not ours";
  std::filesystem::rename(Path("other"), Path("g"));
  ASSERT_THAT(store_->Remove(InodeId(1)), IsOk());
  EXPECT_TRUE(Exists("g"));
}

TEST_F(TreeStoreTest, AnotherHeldFileAtTheTargetGoesToTheTrash) {
  Put(Id(1), RandomBytes(5, 1), "f");
  Put(Id(2), RandomBytes(6, 2), "f");
  EXPECT_EQ(TrashCount(), 1U);
  EXPECT_EQ(TrashCount("foreign."), 0U);
  EXPECT_FALSE(store_->Holds(Id(1)));
  EXPECT_TRUE(store_->Holds(Id(2)));
  ASSERT_THAT(store_->Remove(InodeId(1)), IsOk());
  EXPECT_EQ(Content("f"), RandomBytes(6, 2));
  Put(Id(3), RandomBytes(7, 3), "g");
  ASSERT_THAT(store_->MoveFile(InodeId(2), "g"), IsOk());
  EXPECT_FALSE(store_->Holds(Id(3)));
  EXPECT_EQ(Content("g"), RandomBytes(6, 2));
}

TEST_F(TreeStoreTest, ADirectoryInTheWayIsAnError) {
  ASSERT_THAT(store_->MakeDirectory("d", 0755, ::getuid(), ::getgid()), IsOk());
  const Bytes content = RandomBytes(5, 1);
  const auto incoming = Begin(Id(1), content);
  Send(*incoming, content);
  EXPECT_THAT(incoming->Commit(At("d")), IsError(ErrorCode::kIsDirectory));
  std::ofstream(Path("file")) << "x";
  EXPECT_THAT(incoming->Commit(At("file/f")), IsError(ErrorCode::kNotDirectory));
  EXPECT_THAT(incoming->Commit(At("d/f")), IsOk());
  EXPECT_THAT(store_->MoveFile(InodeId(1), "d"), IsError(ErrorCode::kIsDirectory));
  EXPECT_EQ(*store_->HeldPath(InodeId(1)), "d/f");
  EXPECT_THAT(store_->OpenObject(Id(1)), IsOk());
}

// Links that lead out of the store, as directory, as target, and in the place of a held file.
TEST_F(TreeStoreTest, AnySymbolicLinkIsNeverFollowed) {
  const std::string outside = directory_.path() + "/outside";
  std::filesystem::create_directory(outside);
  std::ofstream(outside + "/secret") << "secret";
  std::filesystem::create_directory_symlink(outside, Path("link"));
  std::filesystem::create_symlink(outside + "/secret", Path("target"));
  const Bytes content = RandomBytes(5, 1);
  const auto incoming = Begin(Id(1), content);
  Send(*incoming, content);
  EXPECT_THAT(incoming->Commit(At("link/f")), IsError(ErrorCode::kPermission));
  EXPECT_THAT(store_->MakeDirectory("link/d", 0755, 0, 0), IsError(ErrorCode::kPermission));
  EXPECT_THAT(store_->RemoveDirectory("link/d"), IsError(ErrorCode::kPermission));
  EXPECT_THAT(store_->MoveDirectory("link", "x"), IsError(ErrorCode::kPermission));
  ASSERT_THAT(incoming->Commit(At("target")), IsOk());  // The link itself is set aside.
  EXPECT_EQ(Content("target"), content);
  EXPECT_EQ(TrashCount("foreign."), 1U);

  std::filesystem::remove(Path("target"));
  std::filesystem::create_symlink(outside + "/secret", Path("target"));
  EXPECT_THAT(store_->OpenObject(Id(1)), IsError(ErrorCode::kStale));
  EXPECT_THAT(store_->ReadBlock(Id(1), 0), IsError(ErrorCode::kStale));
  EXPECT_THAT(store_->SetAttributes(InodeId(1), At("")), testing::Not(IsOk()));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(outside), {}), 1);
  EXPECT_EQ(test::ReadWhole(outside + "/secret").size(), 6U);
}

TEST_F(TreeStoreTest, OneProcessServesAStore) {
  test::MemIndexStore other;
  EXPECT_THAT(TreeStore::Open(root_, other), IsError(ErrorCode::kBusy));
  EXPECT_THAT(TreeStore::Open(root_ + "/absent", other), IsError(ErrorCode::kNotFound));
}

// Uploads, reads, moves and removals from several threads; every block read is right.
TEST_F(TreeStoreTest, ManyThreadsAtOnce) {
  constexpr uint64_t kFiles = 24;
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = t; i < kFiles; i += 4) {
          const Bytes content = RandomBytes(1000 + i, i);
          for (uint64_t generation = 1; generation <= 2; ++generation) {
            auto incoming = store_->Begin(Id(i + 1, generation), Manifest::Of(content));
            if (!incoming.ok() || !(*incoming)->WriteBlock(0, content).ok() ||
                !(*incoming)
                     ->Commit(At("d/e" + std::to_string(i % 5) + "/f" + std::to_string(i)))
                     .ok()) {
              ++wrong;
            }
          }
          if (!store_->MoveFile(InodeId(i + 1), "g/f" + std::to_string(i)).ok()) ++wrong;
        }
      });
    }
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        if (!store_->MoveDirectory(i % 2 == 0 ? "g" : "h", i % 2 == 0 ? "h" : "g").ok() &&
            !Exists("g")) {
          ++wrong;
        }
        for (uint64_t inode = 1; inode <= kFiles; ++inode) {
          const auto block = store_->ReadBlock(Id(inode, 2), 0);
          if (block.ok() && *block != RandomBytes(999 + inode, inode - 1)) ++wrong;
        }
      }
    });
  }
  EXPECT_EQ(wrong, 0);
  for (uint64_t inode = 1; inode <= kFiles; ++inode) {
    const auto block = store_->ReadBlock(Id(inode, 2), 0);
    ASSERT_THAT(block, IsOk());
    EXPECT_EQ(*block, RandomBytes(999 + inode, inode - 1));
  }
}

}  // namespace
}  // namespace quadfs::cache
