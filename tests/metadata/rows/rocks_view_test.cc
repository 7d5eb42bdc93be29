#include "metadata/rocks_view.h"

#include <atomic>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include "metadata/execute.h"
#include "metadata/state_writer.h"
#include "tests/support/matchers.h"
#include "transport/base/random.h"

namespace quadfs::metadata {
namespace {

using test::IsError;
using test::IsOk;

class RocksViewTest : public testing::Test {
 protected:
  RocksViewTest()
      : directory_(testing::TempDir() + "/view-" + RandomHex(8)),
        store_(RowStore::Open(directory_, {}).value()),
        view_(*store_) {
    store_->Write(EmptyTree(1), false).value();
  }
  ~RocksViewTest() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }
  Result<OpResult> Run(Operation op) {
    op.now_ns = ++now_;
    auto effects = QUADFS_TRY(Execute(*store_, op, kMainCampus));
    StateWriter writer(*store_, totals_);
    QUADFS_TRY(writer.SetAll(effects.rows));
    QUADFS_TRY(store_->Write(writer.Take(), false));
    return effects.result;
  }
  InodeId Create(InodeId parent, const std::string& name, FileType type = FileType::kRegular,
                 uint64_t inode = 0) {
    Operation op;
    op.kind = OpKind::kCreate;
    op.parent = parent;
    op.name = name;
    op.type = type;
    op.mode = 0755;
    op.inode = InodeId(inode != 0 ? inode : next_inode_++);
    return Run(op).value().attributes.inode;
  }
  Result<OpResult> Rename(InodeId parent, const std::string& name, InodeId new_parent,
                          const std::string& new_name) {
    Operation op;
    op.kind = OpKind::kRename;
    op.parent = parent;
    op.name = name;
    op.new_parent = new_parent;
    op.new_name = new_name;
    return Run(op);
  }
  Result<OpResult> Name(OpKind kind, InodeId parent, const std::string& name,
                        InodeId inode = InodeId()) {
    Operation op;
    op.kind = kind;
    op.parent = parent;
    op.name = name;
    op.inode = inode;
    return Run(op);
  }
  std::vector<std::string> Names(InodeId directory, const std::string& after = "",
                                 size_t limit = 1000) {
    std::vector<std::string> names;
    const auto page = view_.List(directory, after, limit, false);
    EXPECT_THAT(page, IsOk());
    for (const auto& entry : *page) {
      names.push_back(entry.name);
    }
    return names;
  }
  std::string directory_;
  std::unique_ptr<RowStore> store_;
  RocksView view_;
  TotalsCache totals_;
  int64_t now_ = 10;
  uint64_t next_inode_ = 100;
};

TEST_F(RocksViewTest, LookupFindsNamesDotAndDotDot) {
  const InodeId d = Create(kRootInode, "d", FileType::kDirectory);
  const InodeId f = Create(d, "f");
  EXPECT_EQ(view_.Lookup(d, "f")->inode, f);
  EXPECT_EQ(view_.Lookup(d, ".")->inode, d);
  EXPECT_EQ(view_.Lookup(d, "..")->inode, kRootInode);
  EXPECT_EQ(view_.Lookup(kRootInode, "..")->inode, kRootInode);
  EXPECT_THAT(view_.Lookup(d, "none"), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(view_.Lookup(f, "x"), IsError(ErrorCode::kNotDirectory));
  EXPECT_THAT(view_.Lookup(f, ".."), IsError(ErrorCode::kNotDirectory));
  EXPECT_THAT(view_.Lookup(InodeId(4711), "x"), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(view_.Lookup(d, std::string(256, 'x')), IsError(ErrorCode::kNameTooLong));
}

TEST_F(RocksViewTest, EveryNameOfAFileFindsIt) {
  const InodeId d = Create(kRootInode, "d", FileType::kDirectory);
  const InodeId f = Create(kRootInode, "f");
  ASSERT_THAT(Name(OpKind::kLink, d, "g", f), IsOk());
  EXPECT_EQ(view_.Lookup(d, "g")->inode, f);
  EXPECT_EQ(view_.Lookup(d, "g")->nlink, 2U);
  EXPECT_EQ(Names(d), std::vector<std::string>{"g"});
}

TEST_F(RocksViewTest, ARemovedInodeIsRememberedWithoutNames) {
  const InodeId f = Create(kRootInode, "f");
  ASSERT_THAT(Name(OpKind::kUnlink, kRootInode, "f"), IsOk());
  EXPECT_EQ(view_.Get(f)->nlink, 0U);
  EXPECT_THAT(view_.Get(InodeId(4711)), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(view_.NameOf(f), IsError(ErrorCode::kNotFound));
  const InodeId d = Create(kRootInode, "d", FileType::kDirectory);
  ASSERT_THAT(Name(OpKind::kRmdir, kRootInode, "d"), IsOk());
  EXPECT_TRUE(view_.List(d, "", 10, true)->empty());
}

// A directory is read page by page, in name order, whatever order inode numbers are in.
TEST_F(RocksViewTest, PagesJoinWithoutGapOrRepetition) {
  std::mt19937_64 random(3);
  for (const bool mixed : {false, true}) {
    const InodeId d = Create(kRootInode, mixed ? "mixed" : "rising", FileType::kDirectory);
    std::vector<uint64_t> numbers;
    for (uint64_t i = 0; i < 700; ++i) numbers.push_back((mixed ? 100000 : 500000) + i * 3);
    if (mixed) std::shuffle(numbers.begin(), numbers.end(), random);
    std::map<std::string, uint64_t> made;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const std::string name = std::to_string(1000 + i);
      Create(d, name, FileType::kRegular, numbers[i]);
      made.emplace(name, numbers[i]);
    }
    std::map<std::string, uint64_t> seen;
    std::string after;
    while (true) {
      const auto page = view_.List(d, after, 64, true).value();
      for (const DirectoryEntry& entry : page) {
        EXPECT_GT(entry.name, after);
        ASSERT_TRUE(entry.attributes.has_value());
        EXPECT_EQ(entry.attributes->inode, entry.inode);
        EXPECT_EQ(entry.type, FileType::kRegular);
        seen.emplace(entry.name, entry.inode.value);
        after = entry.name;
      }
      if (page.size() < 64) break;
    }
    EXPECT_EQ(seen, made);
  }
  EXPECT_THAT(view_.List(InodeId(100000), "", 10, false), IsError(ErrorCode::kNotDirectory));
  EXPECT_THAT(view_.List(InodeId(4711), "", 10, false), IsError(ErrorCode::kNotFound));
}

TEST_F(RocksViewTest, APageStartsAfterTheLastNameEvenIfThatIsGone) {
  const InodeId d = Create(kRootInode, "d", FileType::kDirectory);
  for (const char* name : {"a", "b", "b\x01", "c"}) Create(d, name);
  EXPECT_EQ(Names(d, "", 2), (std::vector<std::string>{"a", "b"}));
  ASSERT_THAT(Name(OpKind::kUnlink, d, "b"), IsOk());
  EXPECT_EQ(Names(d, "b"), (std::vector<std::string>{"b\x01", "c"}));
  EXPECT_EQ(Names(d, "c"), std::vector<std::string>{});
  EXPECT_EQ(Names(d, "bb"), std::vector<std::string>{"c"});
}

TEST_F(RocksViewTest, TornRowsAreNotShown) {
  const InodeId d = Create(kRootInode, "d", FileType::kDirectory);
  const InodeId f = Create(d, "f");
  Create(d, "whole");
  store_
      ->Write({{DentryKey(d, "no-inode"), EncodeDentry({InodeId(4711)})},
               {DentryKey(d, "not-its-name"), EncodeDentry({f})}},
              false)
      .value();
  EXPECT_EQ(Names(d), (std::vector<std::string>{"f", "whole"}));
  EXPECT_EQ(Names(d, "", 2), (std::vector<std::string>{"f", "whole"}))
      << "hidden ones cost no room";
  EXPECT_THAT(view_.Lookup(d, "no-inode"), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(view_.Lookup(d, "not-its-name"), IsError(ErrorCode::kNotFound));
}

// A name that is replaced all the time is there all the time, in lookups and in pages.
TEST_F(RocksViewTest, AReplacedNameIsNeverMissed) {
  Create(kRootInode, "target");
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> reads = 0;
  std::jthread reader([&] {
    while (!stop) {
      EXPECT_THAT(view_.Lookup(kRootInode, "target"), IsOk());
      bool listed = false;
      const auto page = view_.List(kRootInode, "", 100, true);
      ASSERT_THAT(page, IsOk());
      for (const DirectoryEntry& entry : *page) {
        listed = listed || entry.name == "target";
      }
      EXPECT_TRUE(listed);
      ++reads;
    }
  });
  for (int i = 0; i < 500 || reads < 200; ++i) {
    Create(kRootInode, "new");
    ASSERT_THAT(Rename(kRootInode, "new", kRootInode, "target"), IsOk());
  }
  stop = true;
}

TEST_F(RocksViewTest, ExtendedAttributesAreReadAndListed) {
  const InodeId f = Create(kRootInode, "f");
  EXPECT_TRUE(view_.ListXattr(f)->empty());
  for (const char* name : {"user.b", "user.a"}) {
    Operation op;
    op.kind = OpKind::kSetXattr;
    op.inode = f;
    op.xattr_name = name;
    op.xattr_value = std::string("value of ") + name;
    ASSERT_THAT(Run(op), IsOk());
  }
  EXPECT_EQ(view_.GetXattr(f, "user.b").value(), "value of user.b");
  EXPECT_THAT(view_.ListXattr(f).value(), testing::ElementsAre("user.a", "user.b"));
  EXPECT_THAT(view_.GetXattr(f, "user.c"), IsError(ErrorCode::kNoAttribute));
  EXPECT_THAT(view_.GetXattr(InodeId(4711), "user.c"), IsError(ErrorCode::kNotFound));
}

TEST_F(RocksViewTest, PathsAndNamesGoUpByPrimaryNames) {
  const InodeId d = Create(kRootInode, "d", FileType::kDirectory);
  const InodeId e = Create(d, "e", FileType::kDirectory);
  const InodeId f = Create(e, "f");
  ASSERT_THAT(Name(OpKind::kLink, kRootInode, "second", f), IsOk());
  EXPECT_EQ(view_.PathOf(f).value(), "d/e/f");
  EXPECT_EQ(view_.PathOf(kRootInode).value(), "");
  EXPECT_EQ(view_.NameOf(f).value(), std::pair(e, std::string("f")));
  EXPECT_THAT(view_.NameOf(kRootInode), IsError(ErrorCode::kInvalidArgument));
  ASSERT_THAT(Rename(d, "e", kRootInode, "moved"), IsOk());
  EXPECT_EQ(view_.PathOf(f).value(), "moved/f");
}

TEST_F(RocksViewTest, ResolveChecksSearchPermission) {
  const InodeId d = Create(kRootInode, "d", FileType::kDirectory);
  const InodeId f = Create(d, "f");
  const Credentials user{1000, 100, {}};
  EXPECT_EQ(view_.Resolve("d/f", user)->inode, f);
  EXPECT_EQ(view_.Resolve("/d//f", user)->inode, f);
  EXPECT_EQ(view_.Resolve("", user)->inode, kRootInode);
  EXPECT_EQ(view_.Resolve("d/../d", user)->inode, d);
  EXPECT_THAT(view_.Resolve("d/none", user), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(view_.Resolve("d/f/x", user), IsError(ErrorCode::kNotDirectory));
  Operation op;
  op.kind = OpKind::kSetAttributes;
  op.inode = d;
  op.set_mask = kSetMode;
  op.mode = 0700;
  ASSERT_THAT(Run(op), IsOk());
  EXPECT_THAT(view_.Resolve("d/f", user), IsError(ErrorCode::kAccess));
  EXPECT_EQ(view_.Resolve("d/f", Credentials())->inode, f);
}

TEST_F(RocksViewTest, TotalsLocationsMembersAndPositionAreRead) {
  const InodeId d = Create(kRootInode, "d", FileType::kDirectory);
  const InodeId f = Create(d, "f");
  Operation op;
  op.kind = OpKind::kPublish;
  op.inode = f;
  op.generation = Generation(1);
  op.size = 9;
  op.location.node = NodeId(3);
  ASSERT_THAT(Run(op), IsOk());
  EXPECT_EQ(view_.SubtreeTotals(kRootInode)->bytes, 9U);
  EXPECT_EQ(view_.SubtreeTotals(d)->campus_bytes.at(kMainCampus), 9U);
  EXPECT_THAT(view_.SubtreeTotals(f), IsError(ErrorCode::kNotDirectory));
  EXPECT_EQ(view_.Locations(f)->size(), 1U);
  EXPECT_TRUE(view_.Locations(d)->empty());
  for (const uint64_t node : {0, 5}) {
    Operation member;
    member.kind = OpKind::kMember;
    member.member = {CampusId(2), NodeId(node), "m" + std::to_string(node), {}};
    ASSERT_THAT(Run(member), IsOk());
  }
  EXPECT_EQ(view_.FindMember(CampusId(2), NodeId(5))->name, "m5");
  EXPECT_THAT(view_.FindMember(CampusId(2), NodeId(6)), IsError(ErrorCode::kNotFound));
  EXPECT_EQ(view_.Members()->size(), 2U);
  EXPECT_EQ(view_.Position(), SequenceNumber(0));
  view_.SetPosition(SequenceNumber(7));
  EXPECT_EQ(view_.Position(), SequenceNumber(7));
}

}  // namespace
}  // namespace quadfs::metadata
