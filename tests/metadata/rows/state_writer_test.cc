#include "metadata/state_writer.h"

#include <random>

#include "metadata/execute.h"
#include "metadata/tree_rows.h"
#include "tests/support/matchers.h"
#include "tests/support/metadata_campuses.h"

namespace quadfs::metadata {
namespace {

using test::IsError;
using test::IsOk;
using test::MapRows;
using test::StoredTotals;
using test::TotalsFromScratch;

Attributes Directory(uint64_t inode, uint64_t parent) {
  Attributes a;
  a.inode = InodeId(inode);
  a.type = FileType::kDirectory;
  a.parent = InodeId(parent);
  return a;
}

Attributes File(uint64_t inode, uint64_t parent, uint64_t size) {
  Attributes a;
  a.inode = InodeId(inode);
  a.parent = InodeId(parent);
  a.size = size;
  a.generation = Generation(1);
  return a;
}

RowChange Put(const Attributes& a) { return {InodeKey(a.inode), EncodeInode(a)}; }
RowChange Erase(uint64_t inode) { return {InodeKey(InodeId(inode)), std::nullopt}; }

// Writes each list of changes as one batch.
class StateWriterTest : public testing::Test {
 protected:
  void SetUp() override { Write(EmptyTree(1)); }
  void Write(const std::vector<RowChange>& changes) {
    StateWriter writer(rows_, cache_);
    ASSERT_THAT(writer.SetAll(changes), IsOk());
    rows_.Apply(writer.Take());
  }
  Totals Of(uint64_t directory) {
    const auto totals = StoredTotals(rows_);
    const auto found = totals.find(InodeId(directory));
    return found == totals.end() ? Totals() : found->second;
  }
  MapRows rows_;
  TotalsCache cache_;
};

TEST_F(StateWriterTest, ReadsAndScansSeeTheChanges) {
  Write({{XattrKey(InodeId(5), "b"), "1"}, {XattrKey(InodeId(5), "d"), "2"}});
  StateWriter writer(rows_, cache_);
  ASSERT_THAT(writer.SetAll({{XattrKey(InodeId(5), "a"), "3"},
                             {XattrKey(InodeId(5), "b"), std::nullopt},
                             {XattrKey(InodeId(5), "d"), "4"},
                             {XattrKey(InodeId(5), "e"), "5"}}),
              IsOk());
  EXPECT_EQ(writer.Read(XattrKey(InodeId(5), "b")).value(), std::nullopt);
  EXPECT_EQ(writer.Read(XattrKey(InodeId(5), "d")).value(), "4");
  std::string seen;
  const auto collect = [&seen](std::string_view key, std::string_view value) {
    seen += std::string(ParseXattrKey(key)->name) + std::string(value) + " ";
    return true;
  };
  ASSERT_THAT(writer.ScanPrefix(XattrPrefix(InodeId(5)), {}, collect), IsOk());
  EXPECT_EQ(seen, "a3 d4 e5 ");
  seen.clear();
  ASSERT_THAT(writer.ScanPrefix(XattrPrefix(InodeId(5)), XattrKey(InodeId(5), "b"), collect),
              IsOk());
  EXPECT_EQ(seen, "d4 e5 ");
  seen.clear();
  ASSERT_THAT(writer.ScanPrefix(XattrPrefix(InodeId(5)), {},
                                [&](std::string_view key, std::string_view value) {
                                  collect(key, value);
                                  return false;
                                }),
              IsOk());
  EXPECT_EQ(seen, "a3 ");
}

TEST_F(StateWriterTest, ADeepFileCountsInEveryDirectoryAbove) {
  Write({Put(Directory(2, 1)),
         Put(Directory(3, 2)),
         Put(File(4, 3, 100)),
         {LocationKey(InodeId(4)), EncodeLocations({{CampusId(2), NodeId(0), Generation(1)}})}});
  for (const uint64_t directory : {1, 2, 3}) {
    EXPECT_EQ(Of(directory).files, 1U);
    EXPECT_EQ(Of(directory).bytes, 100U);
    EXPECT_EQ(Of(directory).campus_bytes.at(CampusId(2)), 100U);
  }
  EXPECT_EQ(Of(1).directories, 2U);
  Write({Erase(4)});
  EXPECT_EQ(Of(3), Totals());
}

TEST_F(StateWriterTest, RowsMayComeInAnyOrder) {
  std::vector<RowChange> changes{Put(File(9, 4, 7)), Put(Directory(4, 3)), Put(Directory(3, 2)),
                                 Put(Directory(2, 1))};
  Write(changes);
  EXPECT_EQ(StoredTotals(rows_), TotalsFromScratch(rows_));
  EXPECT_EQ(Of(1).bytes, 7U);
}

TEST_F(StateWriterTest, TwoDirectoriesThatSwapPlacesInOneBatchEndRight) {
  Write({Put(Directory(2, 1)), Put(Directory(3, 2)), Put(File(4, 3, 5)), Put(File(5, 2, 1))});
  Write({Put(Directory(2, 3)), Put(Directory(3, 1))});  // A loop in between.
  EXPECT_EQ(StoredTotals(rows_), TotalsFromScratch(rows_));
  EXPECT_EQ(Of(3).bytes, 6U);
  EXPECT_EQ(Of(2).bytes, 1U);
  EXPECT_EQ(Of(1).directories, 2U);
}

// Rows torn by two sides that each moved a directory into the other's: when the loop is gone, also
// after a restart in between, totals are right again.
TEST_F(StateWriterTest, ALoopOfDirectoriesHealsWithoutATrace) {
  Write({Put(Directory(2, 1)), Put(Directory(3, 1)), Put(File(4, 2, 5)), Put(File(5, 3, 7))});
  Write({Put(Directory(2, 3)), Put(Directory(3, 2))});
  EXPECT_TRUE(rows_.rows().contains(TotalKey(InodeId(0)))) << "the loop is remembered";
  cache_.Clear();
  Write({Put(File(6, 2, 11))});
  Write({Put(Directory(3, 1))});
  EXPECT_EQ(StoredTotals(rows_), TotalsFromScratch(rows_));
  EXPECT_EQ(Of(1).bytes, 23U);
  EXPECT_FALSE(rows_.rows().contains(TotalKey(InodeId(0))));
}

TEST_F(StateWriterTest, TotalRowsOfOthersAndUndecodableRowsAreNotTaken) {
  Write({{TotalKey(InodeId(1)), "anything"}});
  EXPECT_EQ(Of(1), Totals());
  StateWriter writer(rows_, cache_);
  EXPECT_THAT(writer.Set({InodeKey(InodeId(5)), "nonsense"}), IsError(ErrorCode::kCorruption));
  EXPECT_THAT(writer.Set({"", "x"}), IsError(ErrorCode::kCorruption));
  EXPECT_TRUE(writer.empty());
}

TEST_F(StateWriterTest, ConflictNamesCount) {
  Write({Put(Directory(2, 1)),
         {DentryKey(InodeId(2), "a.conflict-2-1"), EncodeDentry({InodeId(9)})},
         {DentryKey(InodeId(2), "a"), EncodeDentry({InodeId(9)})}});
  EXPECT_EQ(Of(1).conflicts, 1U);
  Write({{DentryKey(InodeId(2), "a.conflict-2-1"), std::nullopt}});
  EXPECT_EQ(Of(1), (Totals{0, 1, 0, 0, {}}));
}

// Any rows at all, one change or many at once, with a cache of any size: whenever there is no loop
// the stored totals equal those added up from scratch.
TEST_F(StateWriterTest, RandomRowsAlwaysAddUp) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    MapRows rows;
    TotalsCache cache(seed % 2 == 0 ? 3 : 1000);
    rows.Apply(EmptyTree(1));
    for (int batch = 0; batch < 300; ++batch) {
      StateWriter writer(rows, cache);
      for (uint64_t count = 1 + random() % 5; count > 0; --count) {
        const uint64_t inode = 2 + random() % 20;
        const uint64_t parent = 1 + random() % 10;
        const bool directory = inode < 11;
        switch (random() % 4) {
          case 0: ASSERT_THAT(writer.Set(Erase(inode)), IsOk()); break;
          case 1:
            ASSERT_THAT(writer.Set({LocationKey(InodeId(inode)),
                                    EncodeLocations({{CampusId(random() % 3), NodeId(0),
                                                      Generation(random() % 2)}})}),
                        IsOk());
            break;
          default:
            // A directory below one with a higher number: loops may come and go.
            ASSERT_THAT(writer.Set(Put(directory ? Directory(inode, parent)
                                                 : File(inode, parent, random() % 50))),
                        IsOk());
        }
      }
      rows.Apply(writer.Take());
      bool loop = false;
      for (uint64_t inode = 2; inode < 11; ++inode) {
        InodeId current(inode);
        for (int depth = 0; depth < 30 && current; ++depth) {
          const auto row = FindInode(rows, current).value();
          current = row ? row->parent : InodeId();
        }
        loop = loop || current;
      }
      if (loop) continue;
      auto stored = StoredTotals(rows);
      ASSERT_EQ(stored, TotalsFromScratch(rows)) << "batch " << batch;
    }
  }
}

}  // namespace
}  // namespace quadfs::metadata
