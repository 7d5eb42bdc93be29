// A store that dies between any two steps, and a disk that is full.
#include <sys/mount.h>

#include <fstream>
#include <limits>

#include "cache/tree_rows.h"
#include "tests/cache/tree_store_fixture.h"

namespace quadfs::cache {
namespace {

using test::BlockOf;
using test::IsError;
using test::IsOk;
using test::RandomBytes;

constexpr size_t kMiB = kBlockBytes;

class StoreCrashTest : public TreeStoreTest {
 protected:
  /// Runs `change` with the index dying at its n-th write, for every n, and after each death opens
  /// the store again and calls `check`; ends with the first n that lets it through.
  template <typename Change, typename Check>
  void DieEverywhere(const Change& change, const Check& check) {
    for (size_t n = 0;; ++n) {
      SCOPED_TRACE("the index dies at write " + std::to_string(n));
      ASSERT_LT(n, 50U);
      const size_t fired = index_.faults_fired();
      index_.FailAfter(n);
      const Result<void> result = change();
      const bool died = index_.faults_fired() > fired;
      store_.reset();
      index_.FailAfter(test::MemIndexStore::kUnlimited);
      Open();
      EXPECT_NE(result.ok(), died);
      check();
      if (!died) {
        EXPECT_GE(n, 1U);
        return;
      }
    }
  }
};

TEST_F(StoreCrashTest, AnUploadResumesAfterARestart) {
  const Bytes content = RandomBytes(70 * kMiB, 1);
  {
    const auto incoming = Begin(Id(1), content);
    for (uint64_t i = 0; i < 65; ++i) {
      ASSERT_THAT(incoming->WriteBlock(i, BlockOf(content, i)), IsOk());
    }
    EXPECT_EQ(incoming->Missing(100).size(), 5U);
  }
  Reopen();
  {
    const auto incoming = Begin(Id(1), content);
    EXPECT_EQ(incoming->Missing(100), (std::vector<uint64_t>{65, 66, 67, 68, 69}));
    Send(*incoming, content);
    ASSERT_THAT(incoming->Commit(At("f")), IsOk());
  }
  EXPECT_EQ(Content("f"), content);
  EXPECT_THAT(store_->OpenObject(Id(1)), IsOk());
}

// Killed, the index has only what was recorded after an fdatasync: at most 64 blocks come again.
TEST_F(StoreCrashTest, AKillCostsAtMostTheLastBlocks) {
  const Bytes content = RandomBytes(70 * kMiB, 2);
  auto incoming = Begin(Id(1), content);
  Send(*incoming, content);
  test::MemIndexStore after(index_.rows());  // An orderly end would record the rest.
  incoming.reset();
  store_.reset();
  auto opened = TreeStore::Open(root_, after);
  ASSERT_THAT(opened, IsOk());
  const auto resumed = (*opened)->Begin(Id(1), Manifest::Of(content));
  ASSERT_THAT(resumed, IsOk());
  EXPECT_EQ((*resumed)->Missing(100).size(), 6U);
}

TEST_F(StoreCrashTest, AnUploadOfOtherContentOrADamagedRowStartsAnew) {
  const Bytes content = RandomBytes(2 * kMiB, 3);
  ASSERT_THAT(Begin(Id(1), content)->WriteBlock(0, BlockOf(content, 0)), IsOk());
  const Bytes other = RandomBytes(2 * kMiB, 4);
  EXPECT_EQ(Begin(Id(1), other)->Missing(9).size(), 2U);
  ASSERT_THAT(Begin(Id(1), other)->WriteBlock(0, BlockOf(other, 0)), IsOk());
  store_.reset();
  index_.FlipBit(IncomingRow::Key(Id(1)), 30);
  Open();
  EXPECT_EQ(Begin(Id(1), other)->Missing(9).size(), 2U);
}

TEST_F(StoreCrashTest, DeathAtAnyStepOfACommit) {
  const Bytes first = RandomBytes(kMiB, 5);
  const Bytes second = RandomBytes(35 * kMiB + 1, 6);
  Put(Id(1, 1), first, "a/f");
  const auto commit = [&](const std::string& path) {
    return [&, path]() -> Result<void> {
      if (store_->Holds(Id(1, 2))) return {};
      auto incoming = QUADFS_TRY(store_->Begin(Id(1, 2), Manifest::Of(second)));
      for (const uint64_t i : incoming->Missing(100)) {
        QUADFS_TRY(incoming->WriteBlock(i, BlockOf(second, i)));
      }
      return incoming->Commit(At(path));
    };
  };
  bool old_seen = false;
  DieEverywhere(commit("b/g"), [&] {
    const auto path = store_->HeldPath(InodeId(1));
    ASSERT_THAT(path, IsOk());
    if (store_->Holds(Id(1, 1))) {
      old_seen = true;
      EXPECT_EQ(*path, "a/f");
      EXPECT_EQ(Content("a/f"), first);
      EXPECT_THAT(store_->OpenObject(Id(1, 1)), IsOk());
    } else {
      EXPECT_EQ(*path, "b/g");
      EXPECT_EQ(Content("b/g"), second);
      EXPECT_THAT(store_->OpenObject(Id(1, 2)), IsOk());
      EXPECT_FALSE(Exists("a/f"));
    }
    EXPECT_EQ(TrashCount(), 0U);
  });
  EXPECT_TRUE(old_seen);
  EXPECT_TRUE(store_->Holds(Id(1, 2)));
  EXPECT_TRUE(std::filesystem::is_empty(Path(".quadfs/incoming")));
}

TEST_F(StoreCrashTest, DeathAtAnyStepOfAReplacementInPlace) {
  const Bytes first = RandomBytes(kMiB, 7);
  const Bytes second = RandomBytes(kMiB + 1, 8);
  Put(Id(1, 1), first, "f");
  DieEverywhere(
      [&]() -> Result<void> {
        if (store_->Holds(Id(1, 2))) return {};
        auto incoming = QUADFS_TRY(store_->Begin(Id(1, 2), Manifest::Of(second)));
        for (const uint64_t i : incoming->Missing(100)) {
          QUADFS_TRY(incoming->WriteBlock(i, BlockOf(second, i)));
        }
        return incoming->Commit(At("f"));
      },
      [&] {
        const bool is_new = store_->Holds(Id(1, 2));
        EXPECT_EQ(Content("f"), is_new ? second : first);
        EXPECT_THAT(store_->OpenObject(Id(1, is_new ? 2 : 1)), IsOk());
        EXPECT_EQ(TrashCount(), 0U);
      });
  EXPECT_TRUE(store_->Holds(Id(1, 2)));
}

TEST_F(StoreCrashTest, DeathAtAnyStepOfMoves) {
  const Bytes content = RandomBytes(100, 9);
  Put(Id(1), content, "a/b/f");
  Put(Id(2), content, "a/g");
  Put(Id(3), content, "e/f");
  ASSERT_THAT(store_->Remove(InodeId(3)), IsOk());  // Leaves "e" empty, with a number.
  const auto held = [&] {
    for (const uint64_t inode : {1, 2}) {
      EXPECT_THAT(store_->OpenObject(Id(inode)), IsOk());
      EXPECT_TRUE(Exists(*store_->HeldPath(InodeId(inode))));
    }
  };
  DieEverywhere([&] { return store_->MoveFile(InodeId(1), "a/c/h"); }, held);
  EXPECT_EQ(*store_->HeldPath(InodeId(1)), "a/c/h");
  DieEverywhere([&] { return store_->MoveDirectory("a", "e"); }, held);
  EXPECT_EQ(*store_->HeldPath(InodeId(1)), "e/c/h");
  EXPECT_EQ(*store_->HeldPath(InodeId(2)), "e/g");
}

TEST_F(StoreCrashTest, DeathAtAnyStepOfARemoval) {
  const Bytes content = RandomBytes(100, 10);
  Put(Id(1), content, "f");
  DieEverywhere([&] { return store_->Remove(InodeId(1)); },
                [&] { EXPECT_FALSE(Exists("f") && !store_->Holds(Id(1))); });
  EXPECT_FALSE(Exists("f"));
  EXPECT_EQ(TrashCount(), 1U);
}

// The power goes after a commit has returned: nothing of it was waiting for a sync.
TEST_F(StoreCrashTest, WhatReturnedIsDurable) {
  const Bytes content = RandomBytes(100, 11);
  Put(Id(1), content, "a/f");
  EXPECT_EQ(index_.unsynced(), 0U);
  ASSERT_THAT(store_->MoveDirectory("a", "b"), IsOk());
  EXPECT_EQ(index_.unsynced(), 0U);
  ASSERT_THAT(store_->MoveFile(InodeId(1), "b/g"), IsOk());
  EXPECT_EQ(index_.unsynced(), 0U);
  ASSERT_THAT(store_->Remove(InodeId(1)), IsOk());
  EXPECT_EQ(index_.unsynced(), 0U);
}

// Somebody's file that lies in `incoming/` is not taken for an upload.
TEST_F(StoreCrashTest, AStrangersFileAmongUploadsIsSetAside) {
  store_.reset();
  std::ofstream(Path(".quadfs/incoming/" + ObjectName(Id(9)))) << "displaced by an exchange";
  std::ofstream(Path(".quadfs/incoming/notes")) << "mine";
  Open();
  EXPECT_EQ(TrashCount("foreign."), 2U);
}

TEST_F(StoreCrashTest, AFullDiskCostsNothingThatWasThere) {
  store_.reset();
  if (::mount("quadfs-test", root_.c_str(), "tmpfs", 0, "size=8m") != 0) {
    GTEST_SKIP() << "cannot mount a tmpfs here (not root?)";
  }
  Open();
  const Bytes first = RandomBytes(3 * kMiB, 12);
  Put(Id(1), first, "f");
  const Bytes large = RandomBytes(7 * kMiB, 13);
  {
    const auto incoming = Begin(Id(2), large);
    Result<void> last;
    for (const uint64_t i : incoming->Missing(100))
      last = incoming->WriteBlock(i, BlockOf(large, i));
    EXPECT_THAT(last, IsError(ErrorCode::kNoSpace));
    EXPECT_THAT(incoming->Commit(At("g")), IsError(ErrorCode::kNotFound));
    EXPECT_EQ(Content("f"), first);
    // Room again: the upload goes on where it was.
    ASSERT_THAT(store_->Remove(InodeId(1)), IsOk());
    ASSERT_THAT(store_->PurgeTrash(std::numeric_limits<int64_t>::max()), IsOk());
    EXPECT_LT(incoming->Missing(100).size(), 4U);
    Send(*incoming, large);
    ASSERT_THAT(incoming->Commit(At("g")), IsOk());
    EXPECT_EQ(Content("g"), large);
  }
  store_.reset();
  EXPECT_EQ(::umount2(root_.c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace quadfs::cache
