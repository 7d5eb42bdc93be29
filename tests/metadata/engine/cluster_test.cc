#include <atomic>
#include <random>
#include <thread>

#include "tests/support/matchers.h"
#include "tests/support/metadata_cluster.h"

namespace quadfs::metadata {
namespace {

using test::IsError;
using test::IsOk;
using test::MetadataCluster;

constexpr auto kSoon = std::chrono::seconds(20);

/// main with node m1, campus 2 with a1, campus 3 with b1 and b2.
class ClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const uint64_t campus : {1, 2, 3}) cluster_.AddHub(campus);
    cluster_.AddNode("m1", 1);
    cluster_.AddNode("a1", 2);
    cluster_.AddNode("b1", 3);
    cluster_.AddNode("b2", 3);
  }
  InodeId MakeDirectory(const std::string& node, const std::string& name) {
    const auto made = cluster_.Create(node, kRootInode, name, FileType::kDirectory);
    EXPECT_THAT(made, IsOk());
    return made.ok() ? made->attributes.inode : InodeId();
  }
  /// Waits until the node's hub has contact with main.
  void AwaitMain(const std::string& node) {
    const auto limit = std::chrono::steady_clock::now() + kSoon;
    while (!cluster_.node(node).status().main_connected &&
           std::chrono::steady_clock::now() < limit) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(cluster_.node(node).status().main_connected);
  }
  MetadataCluster cluster_;
};

// Each node shows its own change when Submit returns, without waiting for anything else.
TEST_F(ClusterTest, NodeReadsItsOwnWrites) {
  for (const char* node : {"m1", "a1", "b1"}) {
    const InodeId directory = MakeDirectory(node, std::string("of-") + node);
    for (int i = 0; i < 20; ++i) {
      ASSERT_THAT(cluster_.Create(node, directory, "f" + std::to_string(i)), IsOk());
      EXPECT_THAT(cluster_.node(node).view().Lookup(directory, "f" + std::to_string(i)), IsOk());
    }
  }
  EXPECT_EQ(cluster_.Converge(), "");
}

TEST_F(ClusterTest, ChangeAtOneCampusIsSeenAtTheOthers) {
  const InodeId directory = MakeDirectory("b1", "d");
  ASSERT_THAT(cluster_.Create("b1", directory, "f"), IsOk());
  ASSERT_EQ(cluster_.Converge(), "");
  const auto seen = cluster_.node("a1").view().Lookup(directory, "f");
  ASSERT_THAT(seen, IsOk());
  ASSERT_THAT(cluster_.Rename("a1", directory, "f", kRootInode, "g"), IsOk());
  ASSERT_EQ(cluster_.Converge(), "");
  EXPECT_THAT(cluster_.node("b2").view().Lookup(kRootInode, "g"), IsOk());
  EXPECT_THAT(cluster_.node("b2").view().Lookup(directory, "f"), IsError(ErrorCode::kNotFound));
}

// A second create in a directory needs nothing from main: it works while main is held up.
TEST_F(ClusterTest, LeasedDirectoryIsChangedWithoutMain) {
  const InodeId directory = MakeDirectory("b1", "leased");
  ASSERT_THAT(cluster_.Create("b1", directory, "first"), IsOk());
  cluster_.uplink(3).HoldNext("/v1/merge");
  ASSERT_THAT(cluster_.Create("b1", directory, "second"), IsOk());
  ASSERT_TRUE(cluster_.uplink(3).AwaitHeld());
  ASSERT_THAT(cluster_.Create("b1", directory, "third"), IsOk());
  EXPECT_GT(cluster_.hub(3).status().pending, 0U);
  EXPECT_THAT(cluster_.node("m1").view().Lookup(directory, "third"), IsError(ErrorCode::kNotFound));
  cluster_.uplink(3).Release();
  EXPECT_EQ(cluster_.Converge(), "");
}

TEST_F(ClusterTest, ExclusiveCreateHasOneWinnerAcrossCampuses) {
  const InodeId directory = MakeDirectory("m1", "race");
  ASSERT_EQ(cluster_.Converge(), "");
  std::atomic<int> won{0};
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> racers;
    for (const char* node : {"m1", "a1", "b1", "b2"}) {
      racers.emplace_back([&, node] {
        for (int i = 0; i < 25; ++i) {
          const auto made = cluster_.Create(node, directory, "x" + std::to_string(i));
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
}

// The hub did it, the answer got lost: the node repeats it by its number, and it is done once.
TEST_F(ClusterTest, LostAnswerIsRepeatedExactlyOnce) {
  const InodeId directory = MakeDirectory("b1", "once");
  cluster_.line("b1").LoseAnswerNext("/v1/ops");
  EXPECT_THAT(cluster_.Create("b1", directory, "f"), IsError(ErrorCode::kTimedOut));
  EXPECT_THAT(cluster_.node("b1").WaitCommitted(Deadline::After(kSoon)), IsOk());
  EXPECT_THAT(cluster_.node("b1").view().Lookup(directory, "f"), IsOk());
  cluster_.line("b1").DuplicateNext("/v1/ops");
  EXPECT_THAT(cluster_.Create("b1", directory, "g"), IsOk());
  EXPECT_EQ(cluster_.line("b1").faults_fired(), 2U);
  EXPECT_EQ(cluster_.Converge(), "");
}

TEST_F(ClusterTest, LostMergeAnswerIsShippedAgainAndMergedOnce) {
  const InodeId directory = MakeDirectory("b1", "merge");
  ASSERT_THAT(cluster_.Create("b1", directory, "warm"), IsOk());
  cluster_.uplink(3).LoseAnswerNext("/v1/merge");
  for (int i = 0; i < 10; ++i)
    ASSERT_THAT(cluster_.Create("b1", directory, std::to_string(i)), IsOk());
  EXPECT_EQ(cluster_.Converge(), "");
  EXPECT_EQ(cluster_.uplink(3).faults_fired(), 1U);
}

TEST_F(ClusterTest, KilledHubKeepsWhatItAccepted) {
  const InodeId directory = MakeDirectory("b1", "kept");
  ASSERT_THAT(cluster_.Create("b1", directory, "before"), IsOk());
  cluster_.uplink(3).HoldNext("/v1/merge");
  for (int i = 0; i < 20; ++i)
    ASSERT_THAT(cluster_.Create("b1", directory, std::to_string(i)), IsOk());
  cluster_.uplink(3).Release();
  cluster_.KillHub(3);
  cluster_.StartHub(3);
  EXPECT_EQ(cluster_.Converge(), "");
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(cluster_.node("a1").view().Lookup(directory, std::to_string(i)), IsOk());
  }
}

TEST_F(ClusterTest, KilledMainKeepsWhatItCommitted) {
  const InodeId directory = MakeDirectory("m1", "main");
  for (int i = 0; i < 20; ++i)
    ASSERT_THAT(cluster_.Create("m1", directory, std::to_string(i)), IsOk());
  cluster_.KillHub(1);
  cluster_.StartHub(1);
  AwaitMain("b1");
  ASSERT_EQ(cluster_.Converge(), "");
  EXPECT_THAT(cluster_.Create("b1", directory, "after"), IsOk());
  EXPECT_EQ(cluster_.Converge(), "");
}

TEST_F(ClusterTest, NodeResumesWhereItStood) {
  const InodeId directory = MakeDirectory("b1", "resume");
  cluster_.KillNode("b2");
  for (int i = 0; i < 50; ++i)
    ASSERT_THAT(cluster_.Create("b1", directory, std::to_string(i)), IsOk());
  cluster_.StartNode("b2");
  EXPECT_EQ(cluster_.Converge(), "");
  EXPECT_EQ(cluster_.listener("b2").resets(), 0U);
}

// The hub's rows are lost: it is another history, and the node starts from a snapshot of it.
TEST_F(ClusterTest, NodeStartsAnewFromAHubWithAnotherHistory) {
  const InodeId directory = MakeDirectory("b1", "history");
  ASSERT_THAT(cluster_.Create("b1", directory, "f"), IsOk());
  ASSERT_EQ(cluster_.Converge(), "");
  cluster_.KillHub(3);
  cluster_.LoseHub(3);
  cluster_.StartHub(3);
  EXPECT_EQ(cluster_.Converge(), "");
  EXPECT_THAT(cluster_.node("b1").view().Lookup(directory, "f"), IsOk());
  const auto limit = std::chrono::steady_clock::now() + kSoon;
  while (cluster_.listener("b1").resets() == 0 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_GE(cluster_.listener("b1").resets(), 1U);
  AwaitMain("b1");
  EXPECT_THAT(cluster_.Create("b1", directory, "g"), IsOk());
  EXPECT_EQ(cluster_.Converge(), "");
}

TEST_F(ClusterTest, LostReplicaIsRebuilt) {
  const InodeId directory = MakeDirectory("a1", "rebuild");
  for (int i = 0; i < 20; ++i)
    ASSERT_THAT(cluster_.Create("a1", directory, std::to_string(i)), IsOk());
  cluster_.KillNode("a1");
  cluster_.LoseNode("a1");
  cluster_.StartNode("a1");
  EXPECT_EQ(cluster_.Converge(), "");
}

TEST_F(ClusterTest, CutCampusRefusesChangesReadsOnAndHeals) {
  const InodeId directory = MakeDirectory("b1", "cut");
  ASSERT_THAT(cluster_.Create("b1", directory, "f"), IsOk());
  ASSERT_EQ(cluster_.Converge(), "");
  cluster_.uplink(3).Cut();
  const auto limit = std::chrono::steady_clock::now() + kSoon;
  Result<OpResult> refused = OpResult();
  for (int i = 0; refused.ok() && std::chrono::steady_clock::now() < limit; ++i) {
    refused = cluster_.Create("b1", directory, "late" + std::to_string(i));
  }
  EXPECT_THAT(refused, IsError(ErrorCode::kUnavailable));
  EXPECT_THAT(cluster_.node("b1").view().Lookup(directory, "f"), IsOk());
  // The others need the directory: the silent campus's lease is taken.
  EXPECT_THAT(cluster_.Create("a1", directory, "elsewhere"), IsOk());
  cluster_.uplink(3).Heal();
  AwaitMain("b1");
  EXPECT_EQ(cluster_.Converge(), "");
  EXPECT_THAT(cluster_.node("b1").view().Lookup(directory, "late0"), IsOk());
  EXPECT_THAT(cluster_.Create("b1", directory, "healed"), IsOk());
  EXPECT_EQ(cluster_.Converge(), "");
}

TEST_F(ClusterTest, LocksExcludeAcrossCampusesAndGoWithTheirNode) {
  const auto file = cluster_.Create("m1", kRootInode, "lock");
  ASSERT_THAT(file, IsOk());
  LockRequest request;
  request.inode = file->attributes.inode;
  request.type = LockType::kExclusive;
  request.owner = 1;
  const auto deadline = [] { return Deadline::After(kSoon); };
  ASSERT_THAT(cluster_.node("m1").Lock(request, deadline()), IsOk());
  EXPECT_THAT(cluster_.node("a1").Lock(request, deadline()), IsError(ErrorCode::kWouldBlock));
  const auto holder = cluster_.node("b1").TestLock(request, deadline());
  ASSERT_THAT(holder, IsOk());
  EXPECT_TRUE(holder->has_value());
  // The node goes, its hub stays: at main, then at a branch.
  const auto goes_with = [&](const char* gone, const char* heir) {
    cluster_.KillNode(gone);
    LockRequest patient = request;
    patient.wait = std::chrono::milliseconds(2000);
    Result<void> got = Error(ErrorCode::kWouldBlock, "");
    for (int i = 0; i < 20 && !got.ok(); ++i) got = cluster_.node(heir).Lock(patient, deadline());
    EXPECT_THAT(got, IsOk()) << gone;
  };
  goes_with("m1", "a1");
  EXPECT_THAT(cluster_.node("b1").Lock(request, deadline()), IsError(ErrorCode::kWouldBlock));
  goes_with("a1", "b1");
}

TEST_F(ClusterTest, MessagesGoBothWays) {
  ASSERT_EQ(cluster_.Converge(), "");
  const auto arrived = [](const test::ListenerTwin& listener, const std::string& text) {
    const auto limit = std::chrono::steady_clock::now() + kSoon;
    while (std::chrono::steady_clock::now() < limit) {
      for (const Message& message : listener.messages()) {
        if (message.payload == text) return true;
      }
    }
    return false;
  };
  ASSERT_THAT(cluster_.node("b1").SendMessage(7, "up", Deadline::After(kSoon)), IsOk());
  EXPECT_TRUE(arrived(cluster_.hub_listener(3), "up"));
  ASSERT_THAT(cluster_.hub(3).SendUpstream(7, "further", Deadline::After(kSoon)), IsOk());
  EXPECT_TRUE(arrived(cluster_.hub_listener(1), "further"));
  ASSERT_THAT(cluster_.hub(1).SendMessage(CampusId(3), NodeId(), 7, "down"), IsOk());
  EXPECT_TRUE(arrived(cluster_.hub_listener(3), "down"));
  EXPECT_THAT(cluster_.hub(1).SendMessage(CampusId(9), NodeId(), 7, "x"),
              IsError(ErrorCode::kUnavailable));
}

TEST_F(ClusterTest, BarrierMakesSureOfWhatIsAtMain) {
  for (int i = 0; i < 10; ++i) {
    const std::string name = "b" + std::to_string(i);
    ASSERT_THAT(cluster_.Create("m1", kRootInode, name), IsOk());
    ASSERT_THAT(cluster_.node("b1").Barrier(true, Deadline::After(kSoon)), IsOk());
    EXPECT_THAT(cluster_.node("b1").view().Lookup(kRootInode, name), IsOk());
  }
}

TEST_F(ClusterTest, EnrolNumbersMembersOnceByName) {
  Member node{CampusId(2), NodeId(UINT64_MAX), "x1", {}};
  const auto first = cluster_.hub(1).Enroll(node, Deadline::After(kSoon));
  ASSERT_THAT(first, IsOk());
  const auto again = cluster_.hub(1).Enroll(node, Deadline::After(kSoon));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(first->node, again->node);
  node.campus = CampusId(3);
  EXPECT_THAT(cluster_.hub(1).Enroll(node, Deadline::After(kSoon)), IsError(ErrorCode::kExists));
}

// Many clients at random, with answers lost and doubled: in the end every replica shows one tree.
TEST_F(ClusterTest, RandomClientsWithFaultsConverge) {
  const auto seed = static_cast<uint32_t>(::testing::UnitTest::GetInstance()->random_seed()) + 1U;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const InodeId x = MakeDirectory("b1", "x");
  const InodeId y = MakeDirectory("a1", "y");
  ASSERT_EQ(cluster_.Converge(), "");
  std::atomic<int> succeeded{0};
  {
    std::vector<std::jthread> clients;
    for (const char* node : {"m1", "a1", "b1", "b2"}) {
      clients.emplace_back([&, node] {
        std::mt19937 random(seed + static_cast<uint32_t>(node[0]) * 10U +
                            static_cast<uint32_t>(node[1]));
        for (int i = 0; i < 80; ++i) {
          const InodeId directory = std::array{x, y, kRootInode}[random() % 3];
          const InodeId other = std::array{x, y, kRootInode}[random() % 3];
          const std::string name = "n" + std::to_string(random() % 12);
          if (random() % 20 == 0) cluster_.line(node).LoseAnswerNext("/v1/ops");
          if (random() % 20 == 0) cluster_.line(node).DuplicateNext("/v1/ops");
          if (random() % 20 == 0) cluster_.line(node).LoseAnswerNext("/v1/batch");
          if (random() % 20 == 0) cluster_.line(node).DuplicateNext("/v1/batch");
          switch (random() % 4) {
            case 0: succeeded += cluster_.Create(node, directory, name).ok(); break;
            case 1: succeeded += cluster_.Unlink(node, directory, name).ok(); break;
            case 2:
              succeeded +=
                  cluster_.Rename(node, directory, name, other, "n" + std::to_string(random() % 12))
                      .ok();
              break;
            default: {
              const auto found = cluster_.node(node).view().Lookup(directory, name);
              if (!found.ok() || found->type != FileType::kRegular) break;
              succeeded +=
                  cluster_
                      .Publish(node, found->inode, found->generation.value,
                               found->generation.value + 1 + random() % 5, random() % 100000)
                      .ok();
            }
          }
        }
      });
    }
  }
  for (const char* node : {"m1", "a1", "b1", "b2"}) {
    EXPECT_THAT(cluster_.node(node).WaitCommitted(Deadline::After(kSoon)), IsOk());
  }
  EXPECT_GT(succeeded, 100);
  EXPECT_EQ(cluster_.Converge(), "");
  EXPECT_EQ(cluster_.hub(1).status().lease_violations, 0U);
}

}  // namespace
}  // namespace quadfs::metadata
