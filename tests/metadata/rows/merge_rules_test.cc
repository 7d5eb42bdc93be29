#include "metadata/merge_rules.h"

#include "metadata/execute.h"
#include "metadata/state_writer.h"
#include "metadata/tree_rows.h"
#include "tests/support/matchers.h"
#include "tests/support/metadata_rows.h"

namespace quadfs::metadata {
namespace {

using test::IsOk;
using test::MapRows;

constexpr CampusId kBranch{2};

// Main and one branch that share a beginning, part, and meet again: what the branch did while cut
// off is merged in order. Each side's operations go by path, from the root.
class MergeRulesTest : public testing::Test {
 protected:
  void SetUp() override { main_.Apply(EmptyTree(1)); }

  struct Side {
    MergeRulesTest& test;
    bool branch;
    void Run(Operation op) {
      op.now_ns = ++test.now_;
      MapRows& state = branch ? test.branch_ : test.main_;
      auto effects = Execute(state, op, branch ? kBranch : kMainCampus);
      ASSERT_THAT(effects, IsOk());
      state.Apply(effects->rows);
      if (!branch) return;
      LogEntry entry;
      entry.campus = kBranch;
      entry.campus_op = test.pending_.size() + 1;
      entry.kind = op.kind;
      entry.rows = effects->rows;
      entry.seen = effects->seen;
      entry.operation = op;
      test.pending_.push_back(std::move(entry));
    }
    Place At(const std::string& path) {
      const size_t slash = path.rfind('/');
      if (slash == std::string::npos) return Place(kRootInode, path);
      return Place(Find(path.substr(0, slash)), path.substr(slash + 1));
    }
    InodeId Find(const std::string& path) {
      const Place place = At(path);
      const auto found =
          FindName(branch ? test.branch_ : test.main_, place.first, place.second).value();
      EXPECT_TRUE(found.has_value()) << path;
      return found ? found->inode : InodeId();
    }
    void Make(const std::string& path, FileType type, uint32_t mode = 0755) {
      Operation op;
      op.kind = OpKind::kCreate;
      std::tie(op.parent, op.name) = At(path);
      op.type = type;
      op.mode = mode;
      op.inode = InodeId(((branch ? uint64_t{2} : uint64_t{1}) << 48) + test.next_inode_++);
      Run(op);
    }
    void Directory(const std::string& path, uint32_t mode = 0755) {
      Make(path, FileType::kDirectory, mode);
    }
    void Create(const std::string& path) { Make(path, FileType::kRegular); }
    void Write(const std::string& path, uint8_t content) {
      Operation op;
      op.kind = OpKind::kPublish;
      op.inode = Find(path);
      op.base = ReadInode(branch ? test.branch_ : test.main_, op.inode)->generation;
      op.generation = NextGeneration(op.base, Random::System());
      op.size = content;
      op.root.bytes[0] = content;
      op.location.node = NodeId(branch ? 20 : 10);
      Run(op);
    }
    void Unlink(const std::string& path) {
      Operation op;
      op.kind = OpKind::kUnlink;
      std::tie(op.parent, op.name) = At(path);
      Run(op);
    }
    void Rmdir(const std::string& path) {
      Operation op;
      op.kind = OpKind::kRmdir;
      std::tie(op.parent, op.name) = At(path);
      Run(op);
    }
    void Link(const std::string& path, const std::string& name) {
      Operation op;
      op.kind = OpKind::kLink;
      op.inode = Find(path);
      std::tie(op.parent, op.name) = At(name);
      Run(op);
    }
    void Rename(const std::string& from, const std::string& to, uint32_t flags = 0) {
      Operation op;
      op.kind = OpKind::kRename;
      std::tie(op.parent, op.name) = At(from);
      std::tie(op.new_parent, op.new_name) = At(to);
      op.rename_flags = flags;
      Run(op);
    }
    void SetMode(const std::string& path, uint32_t mode) {
      Operation op;
      op.kind = OpKind::kSetAttributes;
      op.inode = Find(path);
      op.set_mask = kSetMode;
      op.mode = mode;
      Run(op);
    }
    void SetXattr(const std::string& path, const std::string& name, const std::string& value) {
      Operation op;
      op.kind = OpKind::kSetXattr;
      op.inode = Find(path);
      op.xattr_name = name;
      op.xattr_value = value;
      Run(op);
    }
  };

  /// The line is cut: from here on both sides change their own state.
  void Cut() { branch_ = main_; }

  /// Merges what is pending. The verdicts, by name.
  std::vector<std::string> Heal() {
    std::vector<std::string> verdicts;
    for (const LogEntry& entry : pending_) {
      const auto merged = Merge(main_, entry);
      EXPECT_THAT(merged, IsOk());
      main_.Apply(merged->rows);
      verdicts.emplace_back(VerdictName(merged->verdict));
    }
    EXPECT_THAT(test::TreeFaults(main_), testing::IsEmpty());
    return verdicts;
  }

  /// The tree at main: "path" of each name, files with ":content".
  std::vector<std::string> Tree(InodeId directory = kRootInode, const std::string& prefix = "") {
    std::vector<std::string> tree;
    std::vector<std::string> names;
    main_
        .ScanPrefix(DentryPrefix(directory), {},
                    [&](std::string_view key, std::string_view) {
                      names.emplace_back(ParseDentryKey(key)->name);
                      return true;
                    })
        .value();
    for (const std::string& name : names) {
      const Attributes a = FindName(main_, directory, name).value().value();
      if (a.type == FileType::kDirectory) {
        tree.push_back(prefix + name + "/");
        for (std::string& line : Tree(a.inode, prefix + name + "/")) tree.push_back(line);
      } else {
        tree.push_back(prefix + name + ":" + std::to_string(a.root.bytes[0]));
      }
    }
    return tree;
  }

  MapRows main_;
  MapRows branch_;
  std::vector<LogEntry> pending_;
  int64_t now_ = 100;
  uint64_t next_inode_ = 1;
  Side m{*this, false};
  Side c{*this, true};
};

using testing::ElementsAre;

TEST_F(MergeRulesTest, WhatNobodyElseTouchedHoldsAsItIs) {
  m.Create("f");
  Cut();
  c.Directory("d");
  c.Create("d/x");
  c.Write("d/x", 5);
  c.Rename("f", "d/f");
  c.SetMode("d", 0700);
  EXPECT_THAT(Heal(), testing::Each("ok"));
  EXPECT_EQ(main_.rows(), branch_.rows());
}

TEST_F(MergeRulesTest, ATakenNameStaysMainsAndTheOtherGetsAConflictName) {
  Cut();
  m.Create("f");
  m.Write("f", 1);
  c.Create("f");
  c.Write("f", 2);
  EXPECT_THAT(Heal(), ElementsAre("renamed", "ok"));
  EXPECT_THAT(Tree(), ElementsAre("f:1", "f.conflict-2-1:2"));
}

TEST_F(MergeRulesTest, OneDirectoryMadeOnBothSidesBecomesOne) {
  Cut();
  m.Directory("d");
  m.Create("d/m");
  c.Directory("d");
  c.Create("d/c");
  c.Directory("d/sub");
  EXPECT_THAT(Heal(), ElementsAre("merged", "ok", "ok"));
  EXPECT_THAT(Tree(), ElementsAre("d/", "d/c:0", "d/m:0", "d/sub/"));
}

TEST_F(MergeRulesTest, DirectoriesWithOtherModesStayApart) {
  Cut();
  m.Directory("d", 0755);
  c.Directory("d", 0700);
  c.Create("d/private");
  EXPECT_THAT(Heal(), ElementsAre("renamed", "ok"));
  EXPECT_THAT(Tree(), ElementsAre("d/", "d.conflict-2-1/", "d.conflict-2-1/private:0"));
}

TEST_F(MergeRulesTest, AFileWrittenOnBothSidesIsForked) {
  m.Create("f");
  m.Write("f", 1);
  m.SetXattr("f", "user.a", "kept");
  Cut();
  m.Write("f", 2);
  c.Write("f", 3);
  c.Write("f", 4);
  EXPECT_THAT(Heal(), ElementsAre("forked", "ok"));
  EXPECT_THAT(Tree(), ElementsAre("f:2", "f.conflict-2-1:4"));
  const InodeId copy = ConflictInode(kBranch, 1);
  EXPECT_EQ(m.Find("f.conflict-2-1"), copy);
  EXPECT_EQ(main_.Read(XattrKey(copy, "user.a")).value(), EncodeXattr("kept"));
  const auto holders = DecodeLocations(*main_.Read(LocationKey(copy)).value()).value();
  EXPECT_EQ(holders.back().campus, kBranch);
  EXPECT_EQ(holders.back().node, NodeId(20));
}

// Who had the version open that lost goes on writing the copy, also after he heard of it.
TEST_F(MergeRulesTest, WhatLostIsWrittenOnAsTheConflictCopy) {
  m.Create("f");
  m.Write("f", 1);
  Cut();
  m.Write("f", 2);
  c.Write("f", 3);
  const InodeId f = c.Find("f");
  Operation again;
  again.kind = OpKind::kPublish;
  again.inode = f;
  again.base = ReadInode(branch_, f)->generation;
  again.generation = NextGeneration(again.base, Random::System());
  again.size = 5;
  again.root.bytes[0] = 5;
  again.location.node = NodeId(20);
  Heal();
  m.Run(again);
  EXPECT_THAT(Tree(), ElementsAre("f:2", "f.conflict-2-1:5"));
  EXPECT_EQ(FindFork(main_, f, again.generation).value(), ConflictInode(kBranch, 1));
}

TEST_F(MergeRulesTest, ARemovedFileThatWasWrittenComesBack) {
  m.Directory("d");
  m.Create("d/f");
  Cut();
  m.Unlink("d/f");
  m.Rmdir("d");
  c.Write("d/f", 3);
  EXPECT_THAT(Heal(), ElementsAre("resurrected"));
  EXPECT_THAT(Tree(), ElementsAre("d/", "d/f:3"));
}

TEST_F(MergeRulesTest, ACreateBringsItsRemovedParentBack) {
  m.Directory("d");
  m.Directory("d/e");
  Cut();
  m.Rmdir("d/e");
  m.Rmdir("d");
  m.Create("d");
  c.Create("d/e/f");
  EXPECT_THAT(Heal(), ElementsAre("renamed"));
  EXPECT_THAT(Tree(),
              ElementsAre("d:0", "d.conflict-2-1/", "d.conflict-2-1/e/", "d.conflict-2-1/e/f:0"));
}

TEST_F(MergeRulesTest, AnUnlinkDoesNotTakeAVersionItDidNotSee) {
  m.Create("f");
  m.Write("f", 1);
  m.Create("g");
  m.Write("g", 1);
  Cut();
  m.Write("f", 2);
  m.Rename("g", "h");
  c.Unlink("f");
  c.Unlink("g");
  EXPECT_THAT(Heal(), ElementsAre("void-changed", "void-moved"));
  EXPECT_THAT(Tree(), ElementsAre("f:2", "h:1"));
}

TEST_F(MergeRulesTest, WhatBothRemovedIsRemoved) {
  m.Create("f");
  m.Directory("d");
  Cut();
  m.Unlink("f");
  m.Rmdir("d");
  c.Unlink("f");
  c.Rmdir("d");
  EXPECT_THAT(Heal(), ElementsAre("already", "already"));
  EXPECT_THAT(Tree(), ElementsAre());
}

TEST_F(MergeRulesTest, ADirectoryThatFilledUpIsNotRemoved) {
  m.Directory("d");
  m.Directory("e");
  Cut();
  m.Create("d/new");
  m.Rename("e", "e2");
  c.Rmdir("d");
  c.Rmdir("e");
  EXPECT_THAT(Heal(), ElementsAre("void-not-empty", "void-moved"));
  EXPECT_THAT(Tree(), ElementsAre("d/", "d/new:0", "e2/"));
}

TEST_F(MergeRulesTest, TheSameTimeOnBothSidesDoesNotHideANewEntry) {
  m.Directory("d");
  Cut();
  now_ = 50;
  m.Create("d/new");
  now_ = 50;
  c.Rmdir("d");
  EXPECT_THAT(Heal(), ElementsAre("void-not-empty"));
}

TEST_F(MergeRulesTest, AMoveFollowsTheFileAndYieldsToMainsMove) {
  m.Create("f");
  m.Create("g");
  m.Write("f", 1);
  Cut();
  m.Write("f", 2);
  m.Rename("g", "mains");
  c.Rename("f", "f2");
  c.Rename("g", "branchs");
  EXPECT_THAT(Heal(), ElementsAre("ok", "void-moved"));
  EXPECT_THAT(Tree(), ElementsAre("f2:2", "mains:0"));
}

TEST_F(MergeRulesTest, AMoveOfARemovedFileBringsItBackAtTheNewName) {
  m.Create("f");
  m.Write("f", 1);
  Cut();
  m.Unlink("f");
  c.Rename("f", "g");
  EXPECT_THAT(Heal(), ElementsAre("resurrected"));
  EXPECT_THAT(Tree(), ElementsAre("g:1"));
}

TEST_F(MergeRulesTest, AReplaceSparesATargetThatMainChanged) {
  m.Create("target");
  m.Write("target", 1);
  Cut();
  m.Write("target", 2);
  c.Create("tmp");
  c.Write("tmp", 3);
  c.Rename("tmp", "target");
  EXPECT_THAT(Heal(), ElementsAre("ok", "ok", "renamed"));
  EXPECT_THAT(Tree(), ElementsAre("target:2", "target.conflict-2-3:3"));
}

// Checkpoints rewritten by tmp and rename on both sides leave one conflict copy, not twenty.
TEST_F(MergeRulesTest, RepeatedReplacesOnBothSidesLeaveOneConflictCopy) {
  m.Create("ckpt");
  m.Write("ckpt", 1);
  Cut();
  for (uint8_t i = 0; i < 20; ++i) {
    m.Create("tmp");
    m.Write("tmp", static_cast<uint8_t>(100 + i));
    m.Rename("tmp", "ckpt");
    c.Create("tmp");
    c.Write("tmp", static_cast<uint8_t>(200 + i));
    c.Rename("tmp", "ckpt");
  }
  Heal();
  EXPECT_THAT(Tree(), ElementsAre("ckpt:119", "ckpt.conflict-2-3:219"));
}

TEST_F(MergeRulesTest, CrossedMovesOfDirectoriesDoNotMakeALoop) {
  m.Directory("a");
  m.Directory("b");
  Cut();
  m.Rename("a", "b/a");
  c.Rename("b", "a/b");
  EXPECT_THAT(Heal(), ElementsAre("void-loop"));
  EXPECT_THAT(Tree(), ElementsAre("b/", "b/a/"));
}

TEST_F(MergeRulesTest, AMergedDirectoryIsNotMovedOrRemovedByTheSideThatLostIt) {
  Cut();
  m.Directory("d");
  m.Create("d/m");
  c.Directory("d");
  c.Rename("d", "e");
  EXPECT_THAT(Heal(), ElementsAre("merged", "void-merged"));
  EXPECT_THAT(Tree(), ElementsAre("d/", "d/m:0"));
}

TEST_F(MergeRulesTest, OneOfSeveralNamesGoesWhateverTheContent) {
  m.Create("f");
  m.Write("f", 1);
  m.Link("f", "g");
  Cut();
  m.Write("f", 2);
  c.Unlink("f");
  EXPECT_THAT(Heal(), ElementsAre("ok"));
  EXPECT_THAT(Tree(), ElementsAre("g:2"));
}

TEST_F(MergeRulesTest, IfEachSideRemovesAnotherNameOnlySeenContentGoes) {
  for (const char* name : {"f", "h"}) {
    m.Create(name);
    m.Write(name, 1);
  }
  m.Link("f", "g");
  m.Link("h", "i");
  Cut();
  m.Unlink("g");
  m.Unlink("i");
  m.Write("h", 2);
  c.Unlink("f");
  c.Unlink("h");
  EXPECT_THAT(Heal(), ElementsAre("ok", "void-changed"));
  EXPECT_THAT(Tree(), ElementsAre("h:2"));
}

TEST_F(MergeRulesTest, ALinkToARemovedFileBringsItBack) {
  m.Create("f");
  m.Write("f", 1);
  Cut();
  m.Unlink("f");
  c.Link("f", "g");
  EXPECT_THAT(Heal(), ElementsAre("resurrected"));
  EXPECT_THAT(Tree(), ElementsAre("f:1", "g:1"));
}

TEST_F(MergeRulesTest, TheSameLinkOnBothSidesIsThereOnce) {
  m.Create("f");
  Cut();
  m.Link("f", "g");
  c.Link("f", "g");
  EXPECT_THAT(Heal(), ElementsAre("already"));
  EXPECT_EQ(ReadInode(main_, m.Find("f"))->nlink, 2U);
}

TEST_F(MergeRulesTest, AnExchangeHoldsIfBothAreWhereTheyWere) {
  m.Create("f");
  m.Create("g");
  m.Write("f", 1);
  m.Write("g", 2);
  Cut();
  m.Write("g", 3);
  c.Rename("f", "g", kRenameExchange);
  EXPECT_THAT(Heal(), ElementsAre("ok"));
  EXPECT_THAT(Tree(), ElementsAre("f:3", "g:1"));
}

TEST_F(MergeRulesTest, AttributesOfBothSidesMeetFieldByField) {
  m.Create("f");
  Cut();
  m.Write("f", 1);
  m.SetXattr("f", "user.a", "main");
  c.SetMode("f", 0600);
  c.SetXattr("f", "user.a", "branch");
  c.SetXattr("f", "user.b", "branch");
  EXPECT_THAT(Heal(), ElementsAre("ok", "void-changed", "ok"));
  const Attributes f = ReadInode(main_, m.Find("f")).value();
  EXPECT_EQ(f.mode, 0600U);
  EXPECT_EQ(f.root.bytes[0], 1);
  EXPECT_EQ(main_.Read(XattrKey(f.inode, "user.a")).value(), EncodeXattr("main"));
  EXPECT_EQ(main_.Read(XattrKey(f.inode, "user.b")).value(), EncodeXattr("branch"));
}

TEST_F(MergeRulesTest, DirectoryTimesNeverGoBackInAMerge) {
  m.Directory("d");
  Cut();
  now_ = 900;
  m.Create("d/m");
  now_ = 500;
  c.Create("d/c");
  EXPECT_THAT(Heal(), ElementsAre("ok"));
  EXPECT_EQ(ReadInode(main_, m.Find("d"))->mtime_ns, 901);
}

// Even content of a file that nobody remembers any more is kept.
TEST_F(MergeRulesTest, ContentOfAForgottenFileIsKeptInTheRoot) {
  m.Directory("d");
  m.Create("d/f");
  Cut();
  const InodeId f = m.Find("d/f");
  const InodeId d = m.Find("d");
  m.Unlink("d/f");
  m.Rmdir("d");
  main_.Set(TombKey(f), std::nullopt);
  main_.Set(TombKey(d), std::nullopt);
  c.Write("d/f", 9);
  EXPECT_THAT(Heal(), ElementsAre("forked"));
  EXPECT_THAT(Tree(), ElementsAre("lost:9"));
}

TEST(ConflictNameTest, StaysANameAndNamesItsOperation) {
  EXPECT_EQ(ConflictName("a.txt", CampusId(2), 17, 0), "a.txt.conflict-2-17");
  EXPECT_EQ(ConflictName("a", CampusId(2), 17, 3), "a.conflict-2-17.3");
  EXPECT_EQ(ConflictName("a.conflict-3-4.1", CampusId(2), 17, 0), "a.conflict-2-17");
  const std::string cut = ConflictName(std::string(255, 'x'), CampusId(2), 17, 0);
  EXPECT_EQ(cut.size(), kMaxNameBytes);
  EXPECT_TRUE(IsConflictName(cut));
  std::string umlauts;
  while (umlauts.size() < 254) umlauts += "\xc3\xa4";
  const std::string half = ConflictName(umlauts, CampusId(2), 17, 0);
  EXPECT_LE(half.size(), kMaxNameBytes);
  EXPECT_EQ(half.substr(half.find('.') - 2, 2), "\xc3\xa4") << "cut between characters";
  EXPECT_TRUE(IsConflictName(ConflictName(std::string(255, '\x80'), CampusId(2), 17, 0)));
}

}  // namespace
}  // namespace quadfs::metadata
