#include "fs/data/locations.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/fs_data_namespace.h"
#include "tests/support/matchers.h"

namespace quadfs::fs {
namespace {

using metadata::Location;
using test::IsError;
using test::IsOk;

class LocationsTest : public testing::Test {
 protected:
  LocationsTest() {
    names_.AddMember({kMainCampus, NodeId(0), "main", {}});
    names_.AddMember({kA, NodeId(0), "a", {}});
    names_.AddMember({kB, NodeId(0), "b", {}});
    names_.AddMember({kA, NodeId(5), "a1", {}});
    names_.AddMember({kB, NodeId(7), "b1", {}});
    file_ = names_.MakeFile(kRootInode, "f");
    manifest_ = cache::Manifest::Of(std::vector<std::byte>(1000));
    names_.Publish({file_, Generation(9)}, manifest_, {kA, NodeId(5), Generation(9), false});
  }
  metadata::Attributes File() { return *names_.Get(file_); }

  static constexpr CampusId kA{2}, kB{3};
  test::TestNamespace names_;
  CachedBytes cached_;
  Locations locations_{names_, cached_, kB};
  InodeId file_;
  cache::Manifest manifest_;
};

TEST_F(LocationsTest, TheStateFollowsTheBytesToTheArchive) {
  EXPECT_EQ(locations_.StateOf(File()), SaveState::kLocal);
  names_.Locate(file_, {kA, NodeId(0), Generation(9), true});
  EXPECT_EQ(locations_.StateOf(File()), SaveState::kCampus);
  names_.Locate(file_, {kMainCampus, NodeId(0), Generation(9), false});
  EXPECT_EQ(locations_.StateOf(File()), SaveState::kArchived);
  names_.Locate(file_, {kMainCampus, NodeId(0), Generation(9), true});
  EXPECT_EQ(locations_.StateOf(File()), SaveState::kVerified);
  // An archived older version says nothing about the current one.
  names_.Edit(file_, [](auto& attributes) { attributes.generation = Generation(10); });
  EXPECT_EQ(locations_.StateOf(File()), SaveState::kLocal);
}

TEST_F(LocationsTest, JsonNamesCampusesAndNodesWithTheirShares) {
  names_.Locate(file_, {kMainCampus, NodeId(0), Generation(9), true});
  cached_.Apply({kB, NodeId(7), true, {{file_, {Generation(9), 250}}}});
  const auto text = locations_.Json(File(), {NodeId(7), kB, 500});
  ASSERT_THAT(text, IsOk());
  const auto json = nlohmann::json::parse(*text);
  EXPECT_EQ(json["bytes"], 1000);
  EXPECT_EQ(json["generation"], 9);
  EXPECT_EQ(json["campuses"]["main"]["complete"], true);
  EXPECT_EQ(json["campuses"]["a"]["bytes"], 1000);
  EXPECT_FALSE(json["campuses"].contains("b"));
  EXPECT_EQ(json["nodes"]["a1"]["fraction"], 1.0);
  EXPECT_EQ(json["nodes"]["b1"]["bytes"], 500);  // Its own cache is asked, not its last report.
  EXPECT_DOUBLE_EQ(json["nodes"]["b1"]["fraction"], 0.5);
}

// A report about an older version is not a copy of this one.
TEST_F(LocationsTest, ReportsOfOtherVersionsDoNotCount) {
  cached_.Apply({kB, NodeId(7), true, {{file_, {Generation(8), 1000}}}});
  const auto json = nlohmann::json::parse(*locations_.Json(File(), {NodeId(1), kB, 0}));
  EXPECT_FALSE(json["nodes"].contains("b1"));
}

TEST_F(LocationsTest, ADirectoryAnswersFromItsTotals) {
  const InodeId directory = names_.MakeDirectory(kRootInode, "d");
  metadata::Totals totals;
  totals.bytes = 4000;
  totals.campus_bytes = {{kA, 4000}, {kMainCampus, 1000}};
  names_.SetTotals(directory, totals);
  cached_.Apply({kB, NodeId(7), true, {{directory, {Generation(0), 2000}}}});
  const auto attributes = *names_.Get(directory);
  const auto json = nlohmann::json::parse(*locations_.Json(attributes, {NodeId(1), kB, 0}));
  EXPECT_EQ(json["campuses"]["a"]["complete"], true);
  EXPECT_EQ(json["campuses"]["main"]["complete"], false);
  EXPECT_DOUBLE_EQ(json["campuses"]["main"]["fraction"], 0.25);
  EXPECT_DOUBLE_EQ(json["nodes"]["b1"]["fraction"], 0.5);
  EXPECT_EQ(*locations_.Campuses(attributes), "a");
}

TEST_F(LocationsTest, TheOwnCampusComesFirst) {
  names_.Locate(file_, {kMainCampus, NodeId(0), Generation(9), true});
  names_.Locate(file_, {kB, NodeId(0), Generation(9), true});
  EXPECT_EQ(*locations_.Campuses(File()), "b,main,a");
}

TEST(CachedBytesTest, AResetReplacesAndAnEmptyReportForgets) {
  CachedBytes cached;
  cached.Apply({CampusId(2),
                NodeId(5),
                true,
                {{InodeId(1), {Generation(1), 10}}, {InodeId(2), {Generation(1), 20}}}});
  cached.Apply({CampusId(2), NodeId(5), false, {{InodeId(1), {Generation(1), 0}}}});
  EXPECT_TRUE(cached.HoldersOf(InodeId(1), Generation(1)).empty());
  EXPECT_EQ(cached.HoldersOf(InodeId(2), Generation(1)).size(), 1U);
  const auto copy = CacheReportMessage::Decode(cached.Snapshot(NodeId(5))->Encode());
  ASSERT_THAT(copy, IsOk());
  EXPECT_TRUE(copy->reset);
  ASSERT_EQ(copy->rows.size(), 1U);
  EXPECT_EQ(copy->rows[0].second.bytes, 20U);
  cached.Apply({CampusId(2), NodeId(5), true, {}});
  EXPECT_TRUE(cached.Nodes().empty());
  EXPECT_THAT(CacheReportMessage::Decode("\xFF\xFF garbage"), IsError(ErrorCode::kCorruption));
}

}  // namespace
}  // namespace quadfs::fs
