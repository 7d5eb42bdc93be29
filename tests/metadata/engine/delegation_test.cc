#include <atomic>
#include <set>
#include <thread>

#include "tests/support/matchers.h"
#include "tests/support/metadata_cluster.h"

// Directories in which a node works by itself and tells its hub afterwards.

namespace quadfs::metadata {
namespace {

using test::IsError;
using test::IsOk;
using test::MetadataCluster;

constexpr auto kSoon = std::chrono::seconds(20);
constexpr char kBatch[] = "/v1/batch";

/// main with node m1, campus 3 with b1 and b2; a directory that b1 has made.
class DelegationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const uint64_t campus : {1, 3}) cluster_.AddHub(campus);
    cluster_.AddNode("m1", 1);
    cluster_.AddNode("b1", 3);
    cluster_.AddNode("b2", 3);
    const auto made = cluster_.Create("b1", kRootInode, "own", FileType::kDirectory);
    ASSERT_THAT(made, IsOk());
    own_ = made->attributes.inode;
    // The campus gets the lease, then the node the delegation, each with an operation.
    const auto limit = std::chrono::steady_clock::now() + kSoon;
    while (cluster_.node("b1").status().delegations == 0 &&
           std::chrono::steady_clock::now() < limit) {
      ASSERT_THAT(cluster_.Create("b1", own_, "warm"), IsOk());
      ASSERT_THAT(cluster_.Unlink("b1", own_, "warm"), IsOk());
    }
    ASSERT_GT(cluster_.node("b1").status().delegations, 0U);
    ASSERT_THAT(cluster_.node("b1").Flush(Deadline::After(kSoon), false), IsOk());
  }
  void MakeFiles(const std::string& prefix, int count, const std::string& node = "b1") {
    for (int i = 0; i < count; ++i)
      ASSERT_THAT(cluster_.Create(node, own_, prefix + std::to_string(i)), IsOk());
  }
  void ExpectFiles(const std::string& node, const std::string& prefix, int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_THAT(cluster_.node(node).view().Lookup(own_, prefix + std::to_string(i)), IsOk())
          << node << " " << prefix << i;
    }
  }
  std::set<std::string> Names(const std::string& node) {
    std::set<std::string> names;
    const auto entries = cluster_.node(node).view().List(own_, "", 1000, false);
    EXPECT_THAT(entries, IsOk());
    if (entries.ok()) {
      for (const auto& entry : *entries) names.insert(entry.name);
    }
    return names;
  }
  MetadataCluster cluster_;
  InodeId own_;
};

TEST_F(DelegationTest, NodeWorksInItsDirectoryWithoutTheHub) {
  cluster_.line("b1").HoldNext(kBatch);
  MakeFiles("f", 30);
  ASSERT_TRUE(cluster_.line("b1").AwaitHeld());
  ASSERT_THAT(cluster_.Unlink("b1", own_, "f0"), IsOk());
  ASSERT_THAT(cluster_.Rename("b1", own_, "f1", own_, "g1"), IsOk());
  const auto inner = cluster_.Create("b1", own_, "inner", FileType::kDirectory);
  ASSERT_THAT(inner, IsOk());
  ASSERT_THAT(cluster_.Create("b1", inner->attributes.inode, "deep"), IsOk());
  EXPECT_THAT(cluster_.Create("b1", own_, "f2"), IsError(ErrorCode::kExists));
  EXPECT_THAT(cluster_.Unlink("b1", own_, "f0"), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(cluster_.hub(3).view().Lookup(own_, "f2"), IsError(ErrorCode::kNotFound));
  cluster_.line("b1").Release();
  EXPECT_EQ(cluster_.Converge(), "");
  EXPECT_EQ(Names("m1").size(), 30U);  // 29 files and one directory.
  EXPECT_THAT(cluster_.node("m1").view().Lookup(inner->attributes.inode, "deep"), IsOk());
}

TEST_F(DelegationTest, OthersSeeWhatTheNodeDidWhenTheyAsk) {
  MakeFiles("f", 10);
  ASSERT_THAT(cluster_.node("b2").Barrier(false, Deadline::After(kSoon), own_), IsOk());
  ExpectFiles("b2", "f", 10);
}

TEST_F(DelegationTest, DirectoryIsGivenBackToWhoeverNeedsIt) {
  MakeFiles("f", 10);
  EXPECT_THAT(cluster_.Create("b2", own_, "f3"), IsError(ErrorCode::kExists));
  EXPECT_THAT(cluster_.Create("b2", own_, "of-b2"), IsOk());
  MakeFiles("g", 10);
  EXPECT_THAT(cluster_.Create("m1", own_, "g3"), IsError(ErrorCode::kExists));
  EXPECT_THAT(cluster_.Create("m1", own_, "of-m1"), IsOk());
  MakeFiles("h", 10);
  EXPECT_EQ(cluster_.Converge(), "");
  EXPECT_EQ(Names("b2").size(), 32U);
}

TEST_F(DelegationTest, ExclusiveCreateHasOneWinner) {
  std::atomic<int> won{0}, wrong{0};
  {
    std::vector<std::jthread> racers;
    for (const char* node : {"b1", "b2", "m1", "b1"}) {
      racers.emplace_back([&, node] {
        for (int i = 0; i < 25; ++i) {
          const auto made = cluster_.Create(node, own_, "x" + std::to_string(i));
          if (made.ok()) {
            ++won;
          } else if (made.error().code() != ErrorCode::kExists) {
            ++wrong;
          }
        }
      });
    }
  }
  EXPECT_EQ(won, 25);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cluster_.Converge(), "");
  EXPECT_EQ(Names("m1").size(), 25U);
}

TEST_F(DelegationTest, LostAndDoubledBatchesAreDoneOnce) {
  cluster_.line("b1").LoseAnswerNext(kBatch);
  MakeFiles("f", 20);
  EXPECT_THAT(cluster_.node("b1").Flush(Deadline::After(kSoon), false), IsOk());
  cluster_.line("b1").DuplicateNext(kBatch);
  for (int i = 0; i < 20; ++i)
    ASSERT_THAT(cluster_.Unlink("b1", own_, "f" + std::to_string(i)), IsOk());
  MakeFiles("f", 20);
  EXPECT_EQ(cluster_.Converge(), "");
  EXPECT_EQ(cluster_.line("b1").faults_fired(), 2U);
  EXPECT_EQ(Names("m1").size(), 20U);
}

// What was done and not told survives the node: it is shown at once and told when there is contact.
TEST_F(DelegationTest, KilledNodeTellsLater) {
  cluster_.line("b1").HoldNext(kBatch);
  MakeFiles("f", 20);
  ASSERT_TRUE(cluster_.line("b1").AwaitHeld());
  cluster_.line("b1").Cut();
  cluster_.line("b1").Release();
  cluster_.KillNode("b1");
  cluster_.StartNode("b1");
  ExpectFiles("b1", "f", 20);
  cluster_.line("b1").Heal();
  EXPECT_EQ(cluster_.Converge(), "");
  ExpectFiles("m1", "f", 20);
}

TEST_F(DelegationTest, NodeThatLostItsReplicaTellsLater) {
  cluster_.line("b1").HoldNext(kBatch);
  MakeFiles("f", 20);
  ASSERT_TRUE(cluster_.line("b1").AwaitHeld());
  cluster_.line("b1").Cut();
  cluster_.line("b1").Release();
  cluster_.KillNode("b1");
  cluster_.LoseNode("b1");
  cluster_.line("b1").Heal();
  cluster_.StartNode("b1");
  EXPECT_EQ(cluster_.Converge(), "");
  ExpectFiles("m1", "f", 20);
}

TEST_F(DelegationTest, HubKilledBeforeItWasToldIsTold) {
  cluster_.line("b1").HoldNext(kBatch);
  MakeFiles("f", 20);
  ASSERT_TRUE(cluster_.line("b1").AwaitHeld());
  cluster_.KillHub(3);
  cluster_.line("b1").Release();
  cluster_.StartHub(3);
  EXPECT_EQ(cluster_.Converge(), "");
  ExpectFiles("m1", "f", 20);
}

// After its restart a hub cannot know who works where: another node waits for the one that might.
TEST_F(DelegationTest, RestartedHubWaitsForTheNodesThatHadDirectories) {
  cluster_.line("b1").HoldNext(kBatch);
  MakeFiles("f", 1);
  ASSERT_TRUE(cluster_.line("b1").AwaitHeld());
  cluster_.KillHub(3);
  cluster_.StartHub(3);
  std::jthread later([&] { cluster_.line("b1").Release(); });
  EXPECT_THAT(cluster_.Create("b2", own_, "f0"), IsError(ErrorCode::kExists));
}

// A node that is silent for long loses its directory. What it did there meanwhile is kept beside
// what others did under the same name.
TEST_F(DelegationTest, SilentNodeLosesTheDirectoryButNoFile) {
  cluster_.line("b1").HoldNext(kBatch);
  const auto mine = cluster_.Create("b1", own_, "same");
  ASSERT_THAT(mine, IsOk());
  ASSERT_TRUE(cluster_.line("b1").AwaitHeld());
  cluster_.line("b1").Cut();
  const auto theirs = cluster_.Create("b2", own_, "same");
  ASSERT_THAT(theirs, IsOk());
  cluster_.line("b1").Heal();
  cluster_.line("b1").Release();
  ASSERT_THAT(cluster_.node("b1").Flush(Deadline::After(kSoon), false), IsOk());
  EXPECT_EQ(cluster_.Converge(), "");
  const std::set<std::string> names = Names("m1");
  ASSERT_EQ(names.size(), 2U);
  EXPECT_TRUE(names.contains("same"));
  const auto kept = cluster_.node("m1").view().Lookup(own_, "same");
  ASSERT_THAT(kept, IsOk());
  EXPECT_EQ(kept->inode, theirs->attributes.inode);
  const auto saved = cluster_.node("m1").view().Lookup(own_, *names.rbegin());
  ASSERT_THAT(saved, IsOk());
  EXPECT_EQ(saved->inode, mine->attributes.inode);
  EXPECT_NE(names.rbegin()->find(".conflict-campus3-"), std::string::npos);
}

// A campus that has lost main decides nothing, nor does a node of it.
TEST_F(DelegationTest, CutCampusTakesItsNodesDirectoriesBack) {
  MakeFiles("f", 3);
  cluster_.uplink(3).Cut();
  const auto limit = std::chrono::steady_clock::now() + kSoon;
  Result<OpResult> made = cluster_.Create("b1", own_, "g0");
  for (int i = 1; made.ok() && std::chrono::steady_clock::now() < limit; ++i)
    made = cluster_.Create("b1", own_, "g" + std::to_string(i));
  EXPECT_THAT(made, IsError(ErrorCode::kUnavailable));
  cluster_.uplink(3).Heal();
  EXPECT_EQ(cluster_.Converge(), "");
  ExpectFiles("m1", "f", 3);
}

// Files that a node made and removed again at once leave nothing behind, in any order of telling.
TEST_F(DelegationTest, ReplacedAndRemovedNamesConverge) {
  for (int round = 0; round < 10; ++round) {
    MakeFiles("t", 5);
    for (int i = 0; i < 5; ++i) {
      ASSERT_THAT(cluster_.Rename("b1", own_, "t" + std::to_string(i), own_, "final"), IsOk());
    }
    ASSERT_THAT(cluster_.node("b2").Barrier(false, Deadline::After(kSoon), own_), IsOk());
    ASSERT_EQ(Names("b2"), std::set<std::string>{"final"}) << "round " << round;
  }
  EXPECT_EQ(cluster_.Converge(), "");
}

}  // namespace
}  // namespace quadfs::metadata
