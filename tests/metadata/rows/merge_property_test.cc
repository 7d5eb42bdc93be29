#include <cstdlib>
#include <iostream>

#include "metadata/tree_rows.h"
#include "tests/support/matchers.h"
#include "tests/support/metadata_campuses.h"

namespace quadfs::metadata {
namespace {

using test::Campuses;

// QUADFS_SEED repeats one run, QUADFS_RUNS makes more of them.
uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

// The first seed whose run breaks a promise, with the promise; nothing: none did.
std::string FirstFailure(uint64_t runs, size_t steps, bool cut, const Campuses::Forge& forge,
                         std::map<uint8_t, uint64_t>* verdicts = nullptr) {
  const uint64_t first = FromEnvironment("QUADFS_SEED", 1);
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    Campuses campuses(seed, cut, forge);
    const std::string failure = campuses.Run(steps);
    if (!failure.empty()) return "QUADFS_SEED=" + std::to_string(seed) + ": " + failure;
    if (verdicts == nullptr) continue;
    for (const auto& [verdict, count] : campuses.verdicts()) (*verdicts)[verdict] += count;
  }
  return "";
}

// Cuts and heals at random: all replicas end equal, the tree is well-formed, totals are right, and
// no version goes that its remover had not seen.
TEST(MergePropertyTest, CampusesThatWereCutOffConvergeAndLoseNoVersion) {
  std::map<uint8_t, uint64_t> verdicts;
  EXPECT_EQ(FirstFailure(FromEnvironment("QUADFS_RUNS", 60), 600, true, {}, &verdicts), "");
  for (const Verdict expected :
       {Verdict::kOk, Verdict::kAlready, Verdict::kRenamed, Verdict::kMerged, Verdict::kForked,
        Verdict::kResurrected, Verdict::kVoidChanged, Verdict::kVoidMoved, Verdict::kVoidNotEmpty,
        Verdict::kVoidLoop, Verdict::kVoidMerged}) {
    EXPECT_GT(verdicts[static_cast<uint8_t>(expected)], 0U)
        << "no run reached " << VerdictName(static_cast<uint8_t>(expected));
  }
}

// With leases and no cut, NeedsOf covers every row an operation relies on: nothing ever conflicts.
TEST(MergePropertyTest, UnderLeasesEveryOperationHoldsAsItIs) {
  EXPECT_EQ(FirstFailure(FromEnvironment("QUADFS_RUNS", 60), 600, false, {}), "");
}

// Tests of the test: a merge that believes wrong things is caught.

TEST(MergePropertyTest, MutationNoCompareAndSetIsCaught) {
  EXPECT_NE(FirstFailure(40, 600, true,
                         [](const RowReader& global, LogEntry& entry) {
                           for (auto& [key, hash] : entry.seen) {
                             hash = RowHash(global.Read(key).value());
                           }
                         }),
            "");
}

TEST(MergePropertyTest, MutationUnlinkAndReplaceOfAnUnseenVersionIsCaught) {
  EXPECT_NE(FirstFailure(40, 600, true,
                         [](const RowReader& global, LogEntry& entry) {
                           for (RowChange& change : entry.rows) {
                             if (FamilyOf(change.key) != Family::kTomb || !change.value) continue;
                             const InodeId inode(*ParseNumberKey(change.key));
                             Tomb tomb = DecodeTomb(inode, *change.value).value();
                             const auto now = FindInode(global, inode).value();
                             if (!now) continue;
                             tomb.attributes.generation = now->generation;
                             change.value = EncodeTomb(tomb);
                           }
                         }),
            "");
}

TEST(MergePropertyTest, MutationPublishOverAnUnseenVersionIsCaught) {
  EXPECT_NE(FirstFailure(40, 600, true,
                         [](const RowReader& global, LogEntry& entry) {
                           if (entry.kind != OpKind::kPublish) return;
                           const auto now = FindInode(global, entry.operation->inode).value();
                           if (now) entry.operation->base = now->generation;
                         }),
            "");
}

TEST(MergePropertyTest, MutationLostOperationIsCaught) {
  EXPECT_NE(FirstFailure(40, 600, true,
                         [](const RowReader&, LogEntry& entry) {
                           if (entry.campus_op % 16 != 0) return;
                           entry.rows.clear();
                           entry.seen.clear();
                         }),
            "");
}

}  // namespace
}  // namespace quadfs::metadata
