#include "fs/data/write_back.h"

#include <gtest/gtest.h>

#include <thread>

#include "fs/hub/archive_policy.h"
#include "tests/support/fs_data_campus.h"

namespace quadfs::fs {
namespace {

using test::Content;
using test::InTime;
using test::IsError;
using test::IsOk;
using test::MakeContent;

class WriteBackTest : public testing::Test {
 protected:
  test::TestNamespace names_;
  test::TestCampusHub hub_{1, names_};
  test::TestCampusNode node_{5, names_, hub_};
};

// Killed with a backlog, started again: everything arrives, also what was not queued yet.
TEST_F(WriteBackTest, ABacklogSurvivesARestart) {
  node_.line->Cut();
  std::map<InodeId, Content> contents;
  for (uint64_t i = 0; i < 20; ++i) {
    const InodeId inode = names_.MakeFile(kRootInode, "f" + std::to_string(i));
    contents[inode] = MakeContent(i == 3 ? 10 * kBlockBytes : 1000 * i, i);
    node_.Write(inode, contents[inode], /*enqueue=*/i % 2 == 0);
  }
  EXPECT_GE(node_.data->write_back().status().queued, 10U);
  node_.Kill();
  node_.Start();
  ASSERT_THAT(node_.data->write_back().WaitDrained(std::nullopt, InTime()), IsOk());
  for (const auto& [inode, content] : contents) {
    EXPECT_EQ(test::ReadContent(hub_.PathInStore(names_.NameOf(inode)->second)), content);
  }
  EXPECT_TRUE(node_.cache->Unsaved()->empty());
  EXPECT_EQ(node_.local.CountOf("writeback"), 0U);
}

// The hub stores it but cannot tell the log: the node's copy stays unsaved until it can.
TEST_F(WriteBackTest, TheNodesCopyMayGoOnlyAfterTheHubIsSure) {
  hub_.hub.SetCut(true);
  const InodeId inode = names_.MakeFile(kRootInode, "f");
  const ObjectId id = node_.Write(inode, MakeContent(5000, 1));
  EXPECT_THAT(
      node_.data->write_back().WaitDrained(inode, Deadline::After(std::chrono::milliseconds(400))),
      IsError(ErrorCode::kTimedOut));
  EXPECT_TRUE((*node_.cache->Find(id))->unsaved());
  EXPECT_THAT(node_.cache->Evict(id), IsError(ErrorCode::kBusy));
  EXPECT_FALSE(node_.data->write_back().status().problem.empty());
  hub_.hub.SetCut(false);
  ASSERT_THAT(node_.data->write_back().WaitDrained(inode, InTime()), IsOk());
  EXPECT_FALSE((*node_.cache->Find(id))->unsaved());
  EXPECT_TRUE(node_.data->write_back().status().problem.empty());
}

// An answer is lost, a request comes twice: it is saved once, and the queue gets empty.
TEST_F(WriteBackTest, LostAndDoubledRequestsDoNoHarm) {
  node_.line->LoseAnswerNext("/v1/data");
  node_.line->LoseAnswerNext("/v1/commit");
  node_.line->DuplicateNext("/v1/incoming");
  node_.line->DropNext("/v1/incoming");
  const InodeId small = names_.MakeFile(kRootInode, "s"), large = names_.MakeFile(kRootInode, "l");
  const Content small_content = MakeContent(700, 1), content = MakeContent(9 * kBlockBytes, 2);
  node_.Write(small, small_content);
  node_.Write(large, content);
  ASSERT_THAT(node_.data->write_back().WaitDrained(std::nullopt, InTime()), IsOk());
  EXPECT_GE(node_.line->faults_fired(), 3U);
  EXPECT_EQ(test::ReadContent(hub_.PathInStore("s")), small_content);
  EXPECT_EQ(test::ReadContent(hub_.PathInStore("l")), content);
}

// Rewritten twenty times while the hub is away: only the last version is sent.
TEST_F(WriteBackTest, SupersededVersionsAreDropped) {
  node_.line->Cut();
  const InodeId inode = names_.MakeFile(kRootInode, "checkpoint");
  Content last;
  for (uint64_t i = 0; i < 20; ++i) {
    last = MakeContent(3000 + i, i);
    node_.Write(inode, last);
  }
  EXPECT_LE(node_.data->write_back().status().queued, 8U);
  node_.line->Heal();
  ASSERT_THAT(node_.data->write_back().WaitDrained(inode, InTime()), IsOk());
  EXPECT_EQ(test::ReadContent(hub_.PathInStore("checkpoint")), last);
  EXPECT_EQ(hub_.hub.located(), 1);
}

TEST_F(WriteBackTest, ARemovedFileLeavesTheQueueAndTheCache) {
  node_.line->Cut();
  const InodeId inode = names_.MakeFile(kRootInode, "f");
  const ObjectId id = node_.Write(inode, MakeContent(3000, 1));
  names_.Remove(inode);
  node_.line->Heal();
  ASSERT_THAT(node_.data->write_back().WaitDrained(inode, InTime()), IsOk());
  EXPECT_THAT(node_.cache->Find(id), IsError(ErrorCode::kNotFound));
  EXPECT_FALSE(std::filesystem::exists(hub_.PathInStore("f")));
}

// One file the hub will not take yet does not hold up the others.
TEST_F(WriteBackTest, OneStuckFileDoesNotHoldUpTheOthers) {
  const InodeId stuck = names_.MakeFile(kRootInode, "stuck");
  const ObjectId id = node_.Write(stuck, MakeContent(100, 1), /*enqueue=*/false);
  names_.Edit(stuck, [](auto& attributes) { attributes.generation = Generation(1); });
  ASSERT_THAT(node_.data->write_back().Enqueue(id, true), IsOk());
  for (uint64_t i = 0; i < 30; ++i) {
    node_.Write(names_.MakeFile(kRootInode, "f" + std::to_string(i)), MakeContent(100, i));
  }
  const auto by = InTime();
  while (node_.data->write_back().status().queued > 1 && !by.Passed()) std::this_thread::yield();
  const auto entries = node_.data->write_back().Entries(10);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].object, id);
  EXPECT_FALSE(entries[0].problem.empty());
}

TEST_F(WriteBackTest, TheCapHoldsForAllUploadsTogether) {
  node_.data->write_back().SetLimit(8'000'000);
  const auto begun = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < 4; ++i) {
    node_.Write(names_.MakeFile(kRootInode, "f" + std::to_string(i)), MakeContent(3'000'000, i));
  }
  ASSERT_THAT(node_.data->write_back().WaitDrained(std::nullopt, InTime()), IsOk());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  EXPECT_GE(took.count(), 12e6 / 8e6 * 0.9);
  EXPECT_EQ(node_.data->write_back().status().sent_bytes / 100'000, 120U);
}

TEST_F(WriteBackTest, PausedNothingIsSent) {
  node_.data->write_back().SetPaused(true);
  const InodeId inode = names_.MakeFile(kRootInode, "f");
  node_.Write(inode, MakeContent(100, 1));
  EXPECT_THAT(
      node_.data->write_back().WaitDrained(inode, Deadline::After(std::chrono::milliseconds(200))),
      IsError(ErrorCode::kTimedOut));
  node_.data->write_back().SetPaused(false);
  ASSERT_THAT(node_.data->write_back().WaitDrained(inode, InTime()), IsOk());
}

class BranchWriteBackTest : public testing::Test {
 protected:
  test::TestNamespace names_;
  test::TestCampusHub main_{1, names_};
  test::TestCampusHub branch_{2, names_, &main_};
  test::TestCampusNode node_{5, names_, branch_};
};

// A hub killed with a backlog for main: it goes on after its start.
TEST_F(BranchWriteBackTest, ABranchHubsBacklogReachesTheArchiveAfterARestart) {
  branch_.uplink->Cut();
  std::map<InodeId, Content> contents;
  for (uint64_t i = 0; i < 6; ++i) {
    const InodeId inode = names_.MakeFile(kRootInode, "f" + std::to_string(i));
    contents[inode] = MakeContent(i == 0 ? 6 * kBlockBytes : 900, i);
    node_.Write(inode, contents[inode]);
  }
  ASSERT_THAT(node_.data->write_back().WaitDrained(std::nullopt, InTime()), IsOk());
  EXPECT_EQ(branch_.data->write_back()->status().queued, 6U);
  branch_.Kill();
  branch_.uplink->Heal();
  branch_.Start();
  ASSERT_THAT(branch_.data->write_back()->WaitDrained(std::nullopt, InTime()), IsOk());
  for (const auto& [inode, content] : contents) {
    EXPECT_EQ(test::ReadContent(main_.PathInStore(names_.NameOf(inode)->second)), content);
  }
}

TEST_F(BranchWriteBackTest, PolicyOffKeepsASubtreeOutOfTheArchive) {
  const InodeId scratch = names_.MakeDirectory(kRootInode, "scratch");
  const InodeId below = names_.MakeDirectory(scratch, "below");
  names_.SetXattr(scratch, kArchivePolicy, "off");
  const InodeId kept = names_.MakeDirectory(scratch, "kept");
  names_.SetXattr(kept, kArchivePolicy, "on");
  const InodeId out = names_.MakeFile(below, "out"), in = names_.MakeFile(kept, "in");
  node_.Write(out, MakeContent(100, 1));
  node_.Write(in, MakeContent(100, 2));
  ASSERT_THAT(node_.data->write_back().WaitDrained(std::nullopt, InTime()), IsOk());
  ASSERT_THAT(branch_.data->write_back()->WaitDrained(std::nullopt, InTime()), IsOk());
  EXPECT_TRUE(std::filesystem::exists(branch_.PathInStore("scratch/below/out")));
  EXPECT_FALSE(std::filesystem::exists(main_.PathInStore("scratch/below/out")));
  EXPECT_TRUE(std::filesystem::exists(main_.PathInStore("scratch/kept/in")));
}

}  // namespace
}  // namespace quadfs::fs
