#include <set>

#include "tests/support/matchers.h"
#include "tests/support/metadata_tree.h"

namespace quadfs::metadata {
namespace {

using test::IsError;
using test::IsOk;
using test::TestTree;
using test::User;

Location At(uint64_t campus, uint64_t node, uint64_t generation, bool verified = false) {
  return Location{CampusId(campus), NodeId(node), Generation(generation), verified};
}

TEST(PublishTest, ANewVersionIsCurrentAndItsNodeHoldsIt) {
  TestTree tree;
  const InodeId f = tree.Create(kRootInode, "f");
  const auto published = tree.Publish(f, Generation(0), Generation(3), 42, NodeId(9));
  ASSERT_THAT(published, IsOk());
  const Attributes file = tree.Get(f).value();
  EXPECT_EQ(file, published->attributes);
  EXPECT_EQ(file.generation, Generation(3));
  EXPECT_EQ(file.size, 42U);
  EXPECT_EQ(file.root.bytes[0], 3);
  EXPECT_EQ(file.mtime_ns, tree.now());
  EXPECT_EQ(file.ctime_ns, tree.now());
  EXPECT_THAT(tree.Locations(f), testing::ElementsAre(At(1, 9, 3)));
  EXPECT_EQ(tree.TotalsOf(kRootInode).bytes, 42U);
  EXPECT_EQ(tree.TotalsOf(kRootInode).campus_bytes.at(kMainCampus), 42U);
}

TEST(PublishTest, AnotherBaseThanTheCurrentVersionIsStale) {
  TestTree tree;
  const InodeId f = tree.Create(kRootInode, "f");
  ASSERT_THAT(tree.Publish(f, Generation(0), Generation(3), 42), IsOk());
  EXPECT_THAT(tree.Publish(f, Generation(0), Generation(4), 1), IsError(ErrorCode::kStale));
  EXPECT_THAT(tree.Publish(f, Generation(3), Generation(3), 1),
              IsError(ErrorCode::kInvalidArgument));
  EXPECT_EQ(tree.Get(f)->size, 42U);
}

TEST(PublishTest, HoldersOfThePreviousVersionAreKeptOlderOnesForgotten) {
  TestTree tree;
  const InodeId f = tree.Create(kRootInode, "f");
  ASSERT_THAT(tree.Publish(f, Generation(0), Generation(1), 1, NodeId(7)), IsOk());
  ASSERT_THAT(tree.Publish(f, Generation(1), Generation(2), 2, NodeId(8)), IsOk());
  EXPECT_THAT(tree.Locations(f), testing::ElementsAre(At(1, 7, 1), At(1, 8, 2)));
  ASSERT_THAT(tree.Publish(f, Generation(2), Generation(3), 3, NodeId(9)), IsOk());
  EXPECT_THAT(tree.Locations(f), testing::ElementsAre(At(1, 8, 2), At(1, 9, 3)));
}

TEST(PublishTest, SetIdBitsGoUnlessRootWroteAndTheCapabilityAlways) {
  TestTree tree;
  const InodeId f = tree.Create(kRootInode, "f", 06755);
  ASSERT_THAT(tree.SetXattr(f, "security.capability", "caps"), IsOk());
  ASSERT_THAT(tree.SetXattr(f, "user.a", "1"), IsOk());
  ASSERT_THAT(tree.Publish(f, Generation(0), Generation(1), 1), IsOk());
  EXPECT_EQ(tree.Get(f)->mode, 06755U);
  EXPECT_EQ(tree.Xattr(f, "security.capability"), "(none)");
  EXPECT_TRUE(tree.Get(f)->has_xattr);
  tree.as = User(1000);
  ASSERT_THAT(tree.Publish(f, Generation(1), Generation(2), 1), IsOk());
  EXPECT_EQ(tree.Get(f)->mode, 0755U);
}

TEST(PublishTest, OnlyLivingRegularFilesHaveContent) {
  TestTree tree;
  const InodeId d = tree.MakeDirectory(kRootInode, "d");
  EXPECT_THAT(tree.Publish(d, Generation(0), Generation(1), 1),
              IsError(ErrorCode::kInvalidArgument));
  const InodeId f = tree.Create(kRootInode, "f");
  ASSERT_THAT(tree.Unlink(kRootInode, "f"), IsOk());
  EXPECT_THAT(tree.Publish(f, Generation(0), Generation(1), 1), IsError(ErrorCode::kNotFound));
}

TEST(PublishTest, VersionsChosenAfterOneBaseDiffer) {
  std::set<Generation> chosen;
  for (int i = 0; i < 1000; ++i) {
    const Generation next = NextGeneration(Generation(5), Random::System());
    EXPECT_GT(next, Generation(5));
    EXPECT_GT(NextGeneration(next, Random::System()), next);
    chosen.insert(next);
  }
  EXPECT_EQ(chosen.size(), 1000U);
}

TEST(LocateTest, AVerifiedStoreCopyReplacesItsCampussNodes) {
  TestTree tree;
  const InodeId f = tree.Create(kRootInode, "f");
  ASSERT_THAT(tree.Publish(f, Generation(0), Generation(1), 10, NodeId(7)), IsOk());
  ASSERT_THAT(tree.Locate(f, At(2, 0, 1, true)), IsOk());
  EXPECT_THAT(tree.Locations(f), testing::ElementsAre(At(1, 7, 1), At(2, 0, 1, true)));
  ASSERT_THAT(tree.Locate(f, At(1, 0, 1)), IsOk());
  EXPECT_EQ(tree.Locations(f).size(), 3U) << "unverified: the source may not go yet";
  ASSERT_THAT(tree.Locate(f, At(1, 0, 1, true)), IsOk());
  EXPECT_THAT(tree.Locations(f), testing::ElementsAre(At(2, 0, 1, true), At(1, 0, 1, true)));
  EXPECT_EQ(tree.TotalsOf(kRootInode).campus_bytes.at(CampusId(1)), 10U);
  EXPECT_EQ(tree.TotalsOf(kRootInode).campus_bytes.at(CampusId(2)), 10U);
}

TEST(LocateTest, AHolderIsForgottenAndItsCampussBytesWithIt) {
  TestTree tree;
  const InodeId f = tree.Create(kRootInode, "f");
  ASSERT_THAT(tree.Publish(f, Generation(0), Generation(1), 10, NodeId(7)), IsOk());
  ASSERT_THAT(tree.Locate(f, At(1, 7, 1), /*gone=*/true), IsOk());
  EXPECT_THAT(tree.Locations(f), testing::IsEmpty());
  EXPECT_TRUE(tree.TotalsOf(kRootInode).campus_bytes.empty());
  EXPECT_THAT(tree.Locate(f, At(1, 7, 1), /*gone=*/true), IsOk());
}

TEST(LocateTest, AVersionThatIsPastOrUnknownIsNotRemembered) {
  TestTree tree;
  const InodeId f = tree.Create(kRootInode, "f");
  ASSERT_THAT(tree.Publish(f, Generation(0), Generation(1), 10), IsOk());
  ASSERT_THAT(tree.Publish(f, Generation(1), Generation(2), 10), IsOk());
  ASSERT_THAT(tree.Publish(f, Generation(2), Generation(3), 10), IsOk());
  const auto before = tree.Locations(f);
  ASSERT_THAT(tree.Locate(f, At(2, 0, 1, true)), IsOk());
  EXPECT_EQ(tree.Locations(f), before);
  EXPECT_THAT(tree.Locate(InodeId(4711), At(2, 0, 1)), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(tree.Locate(f, At(0, 0, 1)), IsError(ErrorCode::kInvalidArgument));
}

TEST(LocateTest, ARemovedFileStillLearnsWhereItsBytesAre) {
  TestTree tree;
  const InodeId f = tree.Create(kRootInode, "f");
  ASSERT_THAT(tree.Publish(f, Generation(0), Generation(1), 10), IsOk());
  ASSERT_THAT(tree.Unlink(kRootInode, "f"), IsOk());
  ASSERT_THAT(tree.Locate(f, At(2, 0, 1, true)), IsOk());
  EXPECT_EQ(tree.Locations(f).size(), 2U);
  EXPECT_EQ(tree.TotalsOf(kRootInode), Totals());
}

TEST(MemberTest, ACampusOrNodeIsKept) {
  TestTree tree;
  Operation op;
  op.kind = OpKind::kMember;
  op.member = {CampusId(2), NodeId(0), "campus-a", {"hub-a:7440"}};
  ASSERT_THAT(tree.Run(op), IsOk());
  const auto row = tree.rows().Read(MemberKey(CampusId(2), NodeId(0))).value();
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(DecodeMember(CampusId(2), NodeId(0), *row)->name, "campus-a");
  op.member.name.clear();
  EXPECT_THAT(tree.Run(op), IsError(ErrorCode::kInvalidArgument));
}

}  // namespace
}  // namespace quadfs::metadata
