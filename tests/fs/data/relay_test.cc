#include <gtest/gtest.h>

#include "fs/data/cache_reporter.h"
#include "fs/data/messages.h"
#include "fs/data/prefetch.h"
#include "fs/hub/report_relay.h"
#include "tests/support/fs_data_campus.h"

namespace quadfs::fs {
namespace {

using test::InTime;
using test::IsOk;
using test::MakeContent;

constexpr CampusId kA{2}, kB{3};

/// Three hubs' relays, driven by hand, and what each node heard.
class RelayTest : public testing::Test {
 protected:
  struct Site {
    Site(CampusId campus, test::TestNamespace& names)
        : hub(campus, names),
          relay(
              campus, campus == kMainCampus, hub,
              [this](const metadata::Message&) { ++prefetches; }, std::chrono::milliseconds(0)) {}
    test::TestHub hub;
    int prefetches = 0;
    ReportRelay relay;
  };
  RelayTest() {
    for (Site* branch : {&a_, &b_}) {
      branch->hub.SetUpstream(
          [this](const metadata::Message& message) { main_.relay.OnMessage(message); });
    }
    main_.hub.Connect(kA, NodeId(0), [this](const auto& message) { a_.relay.OnMessage(message); });
    main_.hub.Connect(kB, NodeId(0), [this](const auto& message) { b_.relay.OnMessage(message); });
    a_.hub.Connect(kA, NodeId(5), Hear(5));
    a_.hub.Connect(kA, NodeId(6), Hear(6));
    b_.hub.Connect(kB, NodeId(7), Hear(7));
    Rounds();
  }
  test::TestHub::Deliver Hear(uint64_t node) {
    return [this, node](const metadata::Message& message) {
      ++heard_[node];
      if (message.kind != kMessageCacheReport) return;
      cached_[node].Apply(*CacheReportMessage::Decode(message.payload));
    };
  }
  void Report(const CacheReportMessage& report, NodeId sender) {
    a_.relay.OnMessage({kMessageCacheReport, kA, sender, report.Encode()});
    Rounds();
  }
  void Rounds() {
    for (int i = 0; i < 4; ++i) {
      for (Site* site : {&a_, &main_, &b_}) site->relay.Round();
    }
  }
  uint64_t SeenBy(uint64_t node, uint64_t inode) {
    const auto holders = cached_[node].HoldersOf(InodeId(inode), Generation(1));
    return holders.empty() ? 0 : holders[0].bytes;
  }

  test::TestNamespace names_;
  Site main_{kMainCampus, names_}, a_{kA, names_}, b_{kB, names_};
  std::map<uint64_t, CachedBytes> cached_;
  std::map<uint64_t, int> heard_;
};

TEST_F(RelayTest, AReportReachesEveryOtherNodeOnce) {
  Report({kA, NodeId(5), true, {{InodeId(9), {Generation(1), 100}}}}, NodeId(5));
  EXPECT_EQ(SeenBy(6, 9), 100U);
  EXPECT_EQ(SeenBy(7, 9), 100U);
  EXPECT_EQ(heard_[5], 0);
  EXPECT_EQ(heard_[6], 1);
  EXPECT_EQ(heard_[7], 1);
}

TEST_F(RelayTest, NobodyReportsForAnother) {
  Report({kA, NodeId(6), true, {{InodeId(9), {Generation(1), 100}}}}, NodeId(5));
  Report({kB, NodeId(7), true, {{InodeId(9), {Generation(1), 100}}}}, NodeId(5));
  a_.relay.OnMessage({kMessageCacheReport, kA, NodeId(5), "garbage"});
  Rounds();
  EXPECT_EQ(SeenBy(6, 9) + SeenBy(7, 9), 0U);
}

TEST_F(RelayTest, ANodeThatGoesIsForgottenEverywhereAndNewcomersAreToldAll) {
  Report({kA, NodeId(5), true, {{InodeId(9), {Generation(1), 100}}}}, NodeId(5));
  b_.hub.Connect(kB, NodeId(8), Hear(8));
  Rounds();
  EXPECT_EQ(SeenBy(8, 9), 100U);
  a_.hub.Disconnect(kA, NodeId(5));
  Rounds();
  for (const uint64_t node : {6, 7, 8}) EXPECT_EQ(SeenBy(node, 9), 0U) << node;
}

TEST_F(RelayTest, AfterACutMainHearsWhatItMissed) {
  a_.hub.SetCut(true);
  Rounds();
  Report({kA, NodeId(5), true, {{InodeId(9), {Generation(1), 100}}}}, NodeId(5));
  EXPECT_EQ(SeenBy(7, 9), 0U);
  a_.hub.SetCut(false);
  Rounds();
  EXPECT_EQ(SeenBy(7, 9), 100U);
}

TEST_F(RelayTest, PrefetchesFindTheirWay) {
  const auto send = [&](CampusId campus, NodeId node) {
    a_.relay.OnMessage(
        {kMessagePrefetch, kA, NodeId(5), PrefetchMessage{campus, node, {InodeId(9)}}.Encode()});
    Rounds();
  };
  send(kA, NodeId(6));
  EXPECT_EQ(heard_[6], 1);
  send(kB, NodeId(7));
  EXPECT_EQ(heard_[7], 1);
  send(kB, NodeId(0));
  EXPECT_EQ(b_.prefetches, 1);
  send(kA, NodeId(0));
  EXPECT_EQ(a_.prefetches, 1);
}

// Files, their directories' sums, and only what changed.
TEST(CacheReporterTest, ReportsFilesAndDirectoriesThenOnlyChanges) {
  test::TestNamespace names;
  test::TestCampusHub hub(1, names);
  test::TestCampusNode node(5, names, hub);
  const InodeId directory = names.MakeDirectory(kRootInode, "d");
  const ObjectId first = node.Write(names.MakeFile(directory, "x"), MakeContent(1000, 1));
  std::vector<CacheReportMessage> sent;
  CacheReporter reporter(
      {kMainCampus, NodeId(5), std::chrono::milliseconds(0)}, *node.cache, names,
      [&](std::string payload) -> Result<void> {
        sent.push_back(*CacheReportMessage::Decode(payload));
        return {};
      },
      [] { return true; });
  reporter.Round();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_TRUE(sent[0].reset);
  EXPECT_EQ(sent[0].rows.size(), 3U);  // File, directory, root.
  EXPECT_EQ(reporter.DirectoryBytes(directory), 1000U);
  reporter.Round();
  EXPECT_EQ(sent.size(), 1U);
  node.Write(names.MakeFile(kRootInode, "y"), MakeContent(50, 2));
  reporter.Round();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_FALSE(sent[1].reset);
  EXPECT_EQ(sent[1].rows.size(), 2U);  // The new file and the root.
  names.Rename(first.inode, kRootInode, "x");
  metadata::Change change;
  change.dentries = {{directory, "x"}};
  reporter.OnChange(change);
  reporter.Round();
  EXPECT_EQ(reporter.DirectoryBytes(directory), 0U);
  EXPECT_EQ(reporter.DirectoryBytes(kRootInode), 1050U);
}

}  // namespace
}  // namespace quadfs::fs
