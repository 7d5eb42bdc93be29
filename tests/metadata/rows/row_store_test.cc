#include "metadata/row_store.h"

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/support/matchers.h"
#include "tests/support/metadata_rows.h"
#include "transport/base/random.h"

namespace quadfs::metadata {
namespace {

using test::IsError;
using test::IsOk;

class RowStoreTest : public testing::Test {
 protected:
  RowStoreTest() : directory_(testing::TempDir() + "/rows-" + RandomHex(8)) {
    options_.cluster = "c1";
  }
  ~RowStoreTest() override { std::filesystem::remove_all(directory_); }
  std::unique_ptr<RowStore> Open() { return RowStore::Open(directory_, options_).value(); }
  std::string Scan(const RowReader& rows, const RowKey& prefix, const RowKey& from = {}) {
    std::string seen;
    rows.ScanPrefix(prefix, from,
                    [&](std::string_view key, std::string_view value) {
                      seen += std::string(key.substr(9)) + "=" + std::string(value) + " ";
                      return true;
                    })
        .value();
    return seen;
  }
  std::string directory_;
  RowStore::Options options_;
};

TEST_F(RowStoreTest, WrittenRowsSurviveAReopen) {
  {
    auto store = Open();
    ASSERT_THAT(store->Write({{XattrKey(InodeId(1), "a"), "1"}, {InodeKey(InodeId(1)), "x"}}, true),
                IsOk());
    ASSERT_THAT(store->Write({{XattrKey(InodeId(1), "b"), ""}}, false), IsOk());
    ASSERT_THAT(store->SyncLog(), IsOk());
  }
  auto store = Open();
  EXPECT_EQ(store->Read(XattrKey(InodeId(1), "a")).value(), "1");
  EXPECT_EQ(store->Read(XattrKey(InodeId(1), "b")).value(), "") << "an empty value is a row";
  EXPECT_EQ(store->Read(XattrKey(InodeId(1), "c")).value(), std::nullopt);
}

TEST_F(RowStoreTest, EveryFamilyIsApart) {
  auto store = Open();
  std::vector<RowChange> changes;
  for (const Family family : kAllFamilies) {
    changes.push_back({SequenceKey(family, 7), std::string(FamilyName(family))});
  }
  ASSERT_THAT(store->Write(changes, false), IsOk());
  for (const Family family : kAllFamilies) {
    EXPECT_EQ(store->Read(SequenceKey(family, 7)).value(), FamilyName(family));
  }
}

TEST_F(RowStoreTest, AScanKeepsToItsPrefixAndStartsWhereItIsTold) {
  auto store = Open();
  ASSERT_THAT(store->Write({{DentryKey(InodeId(1), "z"), "0"},
                            {DentryKey(InodeId(2), "a"), "1"},
                            {DentryKey(InodeId(2), "b"), "2"},
                            {DentryKey(InodeId(2), "c"), "3"},
                            {DentryKey(InodeId(3), "a"), "4"}},
                           false),
              IsOk());
  EXPECT_EQ(Scan(*store, DentryPrefix(InodeId(2))), "a=1 b=2 c=3 ");
  EXPECT_EQ(Scan(*store, DentryPrefix(InodeId(2)), DentryKey(InodeId(2), "b")), "b=2 c=3 ");
  EXPECT_EQ(Scan(*store, DentryPrefix(InodeId(2)).append("b")), "b=2 ");
  EXPECT_EQ(Scan(*store, FamilyPrefix(Family::kDentry)), "z=0 a=1 b=2 c=3 a=4 ");
  EXPECT_EQ(Scan(*store, FamilyPrefix(Family::kDentry), DentryKey(InodeId(2), "c")), "c=3 a=4 ");
  EXPECT_EQ(Scan(*store, DentryPrefix(InodeId(9))), "");
}

TEST_F(RowStoreTest, ASnapshotStaysAsItWas) {
  auto store = Open();
  ASSERT_THAT(store->Write({{XattrKey(InodeId(1), "a"), "old"}}, false), IsOk());
  const auto snapshot = store->Snapshot();
  ASSERT_THAT(
      store->Write({{XattrKey(InodeId(1), "a"), "new"}, {XattrKey(InodeId(1), "b"), "x"}}, false),
      IsOk());
  EXPECT_EQ(snapshot->Read(XattrKey(InodeId(1), "a")).value(), "old");
  EXPECT_EQ(Scan(*snapshot, XattrPrefix(InodeId(1))), "a=old ");
  const auto many =
      snapshot->ReadMany({XattrKey(InodeId(1), "b"), XattrKey(InodeId(1), "a")}).value();
  EXPECT_EQ(many[0], std::nullopt);
  EXPECT_EQ(many[1], "old");
  auto cursor = snapshot->NewCursor(Family::kXattr);
  cursor->Seek("");
  ASSERT_TRUE(cursor->valid());
  EXPECT_EQ(cursor->value(), "old");
  cursor->Next();
  EXPECT_FALSE(cursor->valid());
  EXPECT_THAT(cursor->status(), IsOk());
}

TEST_F(RowStoreTest, ARangeIsErasedExactly) {
  auto store = Open();
  std::vector<RowChange> changes;
  for (uint64_t i = 1; i <= 100; ++i) changes.push_back({SequenceKey(Family::kLog, i), "e"});
  ASSERT_THAT(store->Write(changes, false), IsOk());
  ASSERT_THAT(
      store->EraseRange(Family::kLog, SequenceKey(Family::kLog, 0), SequenceKey(Family::kLog, 51)),
      IsOk());
  EXPECT_EQ(store->Read(SequenceKey(Family::kLog, 50)).value(), std::nullopt);
  EXPECT_EQ(store->Read(SequenceKey(Family::kLog, 51)).value(), "e");
  size_t count = 0;
  ASSERT_THAT(store->ScanPrefix(FamilyPrefix(Family::kLog), SequenceKey(Family::kLog, 51),
                                [&](std::string_view, std::string_view) { return ++count > 0; }),
              IsOk());
  EXPECT_EQ(count, 50U);
  EXPECT_THAT(
      store->EraseRange(Family::kLog, SequenceKey(Family::kLog, 1), SequenceKey(Family::kView, 2)),
      IsError(ErrorCode::kInvalidArgument));
}

TEST_F(RowStoreTest, IngestedRowsAppearAtFinishOnly) {
  auto store = Open();
  auto ingest = store->NewIngest(Family::kInode).value();
  for (uint64_t i = 1; i <= 1000; ++i) {
    ASSERT_THAT(ingest->Add(InodeKey(InodeId(i)), std::to_string(i)), IsOk());
  }
  EXPECT_THAT(ingest->Add(InodeKey(InodeId(5)), "x"), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(ingest->Add(TombKey(InodeId(5000)), "x"), IsError(ErrorCode::kInvalidArgument));
  EXPECT_EQ(store->Read(InodeKey(InodeId(77))).value(), std::nullopt);
  ASSERT_THAT(ingest->Finish(), IsOk());
  ingest.reset();
  EXPECT_EQ(store->Read(InodeKey(InodeId(77))).value(), "77");
  auto dropped = store->NewIngest(Family::kTomb).value();
  ASSERT_THAT(dropped->Add(TombKey(InodeId(1)), "x"), IsOk());
  dropped.reset();
  EXPECT_EQ(store->Read(TombKey(InodeId(1))).value(), std::nullopt);
  auto empty = store->NewIngest(Family::kTomb).value();
  EXPECT_THAT(empty->Finish(), IsOk());
}

TEST_F(RowStoreTest, AnotherClusterANewerFormatAndASecondProcessAreRefused) {
  {
    auto store = Open();
    EXPECT_THAT(RowStore::Open(directory_, options_), IsError(ErrorCode::kBusy));
    RowStore::Options foreign = options_;
    foreign.cluster = "c2";
    store.reset();
    const auto refused = RowStore::Open(directory_, foreign);
    ASSERT_THAT(refused, IsError(ErrorCode::kInvalidArgument));
    EXPECT_THAT(refused.error().message(), testing::HasSubstr("belongs to cluster \"c1\""));
    store = Open();
    ASSERT_THAT(store->Write({{MetaKey("format"), "2"}}, true), IsOk());
  }
  const auto newer = RowStore::Open(directory_, options_);
  ASSERT_THAT(newer, IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(newer.error().message(), testing::HasSubstr("format 2"));
}

TEST_F(RowStoreTest, KeysOfNoFamilyAreRefused) {
  auto store = Open();
  EXPECT_THAT(store->Write({{"\x7fx", "1"}}, false), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(store->Read(""), IsError(ErrorCode::kInvalidArgument));
}

TEST_F(RowStoreTest, BatchesAreSeenWholeByReadersOfASnapshot) {
  auto store = Open();
  std::atomic<bool> stop = false;
  std::jthread writer([&] {
    for (int i = 0; i < 2000; ++i) {
      const std::string value = std::to_string(i);
      store->Write({{XattrKey(InodeId(1), "a"), value}, {InodeKey(InodeId(1)), value}}, false)
          .value();
    }
    stop = true;
  });
  while (!stop) {
    const auto snapshot = store->Snapshot();
    EXPECT_EQ(snapshot->Read(XattrKey(InodeId(1), "a")).value(),
              snapshot->Read(InodeKey(InodeId(1))).value());
  }
}

}  // namespace
}  // namespace quadfs::metadata
