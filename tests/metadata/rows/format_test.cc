#include "metadata/format.h"

#include <random>

#include "tests/support/matchers.h"

namespace quadfs::metadata {
namespace {

using test::IsError;
using test::IsOk;

std::string Hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char byte : bytes) {
    hex += kDigits[static_cast<uint8_t>(byte) >> 4];
    hex += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return hex;
}

Attributes Symlink() {
  Attributes a;
  a.inode = InodeId(0x0102030405060708);
  a.type = FileType::kSymlink;
  a.mode = 0777;
  a.uid = 1000;
  a.gid = 100;
  a.rdev = 5;
  a.nlink = 2;
  a.size = 3;
  a.atime_ns = 1;
  a.mtime_ns = -2;
  a.ctime_ns = 3;
  a.birth_ns = 4;
  a.parent = InodeId(9);
  a.name_hash = 0xAABB;
  a.generation = Generation(7);
  a.root.bytes[0] = 0xEE;
  a.has_xattr = true;
  a.symlink_target = "abc";
  return a;
}

// What is stored stays readable: these bytes never change within format version 1.
TEST(FormatTest, GoldenKeys) {
  const InodeId inode(0x0102030405060708);
  EXPECT_EQ(Hex(DentryKey(inode, "ab")), "0101020304050607086162");
  EXPECT_EQ(Hex(InodeKey(inode)), "020102030405060708");
  EXPECT_EQ(Hex(LinkKey(inode, InodeId(9), "a")),
            "03010203040506070800000000000000"
            "0961");
  EXPECT_EQ(Hex(XattrKey(inode, "user.a")), "040102030405060708757365722e61");
  EXPECT_EQ(Hex(LocationKey(inode)), "050102030405060708");
  EXPECT_EQ(Hex(TotalKey(inode)), "060102030405060708");
  EXPECT_EQ(Hex(LeaseKey(inode)), "070102030405060708");
  EXPECT_EQ(Hex(TombKey(inode)), "080102030405060708");
  EXPECT_EQ(Hex(AliasKey(inode)), "090102030405060708");
  EXPECT_EQ(Hex(ForkKey(inode, Generation(2))), "0a01020304050607080000000000000002");
  EXPECT_EQ(Hex(WantKey(inode, InodeId(9), "a")), "0b0102030405060708000000000000000961");
  EXPECT_EQ(Hex(MemberKey(CampusId(2), NodeId(3))), "0c00000000000000020000000000000003");
  EXPECT_EQ(Hex(SequenceKey(Family::kLog, 258)), "200000000000000102");
  EXPECT_EQ(Hex(MetaKey("format")), "25666f726d6174");
}

TEST(FormatTest, GoldenValues) {
  EXPECT_EQ(Hex(EncodeDentry({InodeId(0x0102), FileType::kDirectory})), "01020100000000000002");
  EXPECT_EQ(Hex(EncodeInode(Symlink())),
            "010301ff01e80300006400000005000000000000000200000003000000000000000100000000000000"
            "feffffffffffffff030000000000000004000000000000000900000000000000bbaa000000000000"
            "0700000000000000ee000000000000000000000000000000616263");
  EXPECT_EQ(Hex(EncodeLink()), "01");
  EXPECT_EQ(Hex(EncodeXattr("v")), "0176");
  EXPECT_EQ(Hex(EncodeLocations({{CampusId(2), NodeId(3), Generation(4), true}})),
            "010100020003000000000000000400000000000000"
            "01");
  Totals totals{1, 2, 3, 4, {{CampusId(5), 6}}};
  EXPECT_EQ(Hex(EncodeTotals(totals)),
            "01010000000000000002000000000000000300000000000000040000000000000001000500"
            "0600000000000000");
  EXPECT_EQ(Hex(EncodeLease({CampusId(1), Epoch(2), 3})), "01010002000000000000000300000000000000");
  EXPECT_EQ(Hex(EncodeInodeId(InodeId(1))), "010100000000000000");
  EXPECT_EQ(Hex(EncodePlace(InodeId(1), "n")), "01010000000000000001006e");
  EXPECT_EQ(Hex(EncodeMember({CampusId(1), NodeId(0), "a", {"h:1"}})),
            "010100610100030068"
            "3a31");
  const std::string tomb = Hex(EncodeTomb({Symlink(), InodeId(9), "n", 5}));
  EXPECT_EQ(tomb.substr(0, 12), "016c00010301");
  EXPECT_EQ(tomb.substr(tomb.size() - 38), "090000000000000001006e0500000000000000");
}

TEST(FormatTest, GoldenHashes) {
  EXPECT_EQ(RowHash(std::nullopt), 0U);
  EXPECT_EQ(RowHash(std::string()), 0x2D06800538D394C2U);  // XXH3-64 of nothing.
  EXPECT_EQ(NameHash(""), 0x2D06800538D394C2U);
  EXPECT_NE(RowHash(std::string("a")), RowHash(std::string("b")));
}

TEST(FormatTest, WhatWasEncodedIsDecoded) {
  const Attributes a = Symlink();
  EXPECT_EQ(DecodeInode(a.inode, EncodeInode(a)).value(), a);
  const Tomb tomb{a, InodeId(9), "name", -5};
  EXPECT_EQ(DecodeTomb(a.inode, EncodeTomb(tomb)).value(), tomb);
  const Lease lease{CampusId(3), Epoch(9), -1};
  EXPECT_EQ(DecodeLease(EncodeLease(lease)).value(), lease);
  const Totals totals{1, 2, 3, 4, {{CampusId(5), 6}, {CampusId(7), 8}}};
  EXPECT_EQ(DecodeTotals(EncodeTotals(totals)).value(), totals);
  const std::vector<Location> locations{{CampusId(1), NodeId(2), Generation(3), false},
                                        {CampusId(4), NodeId(0), Generation(6), true}};
  EXPECT_EQ(DecodeLocations(EncodeLocations(locations)).value(), locations);
  const Member member{CampusId(1), NodeId(2), "n", {"a:1", "b:2"}};
  const Member decoded = DecodeMember(member.campus, member.node, EncodeMember(member)).value();
  EXPECT_EQ(decoded.name, member.name);
  EXPECT_EQ(decoded.addresses, member.addresses);
  EXPECT_EQ(DecodePlace(EncodePlace(InodeId(5), "n")).value(),
            std::pair(InodeId(5), std::string("n")));
}

TEST(FormatTest, KeysOfAnyNameAreParsedAndSortByNumber) {
  const std::string name("\xff\x01 \n", 4);
  const RowKey dentry = DentryKey(InodeId(7), name);
  const RowKey link = LinkKey(InodeId(5), InodeId(7), name);
  ASSERT_TRUE(ParseDentryKey(dentry) && ParseLinkKey(link));
  EXPECT_EQ(ParseDentryKey(dentry)->name, name);
  EXPECT_EQ(ParseLinkKey(link)->inode, InodeId(5));
  EXPECT_EQ(ParseLinkKey(link)->parent, InodeId(7));
  EXPECT_FALSE(ParseDentryKey(link));
  EXPECT_FALSE(ParseDentryKey(DentryPrefix(InodeId(7)))) << "a key without a name is none";
  EXPECT_FALSE(ParseDentryKey(DentryKey(InodeId(7), std::string(256, 'x'))));
  EXPECT_LT(InodeKey(InodeId(255)), InodeKey(InodeId(256)));
  EXPECT_EQ(*ParseNumberKey(InodeKey(InodeId(77))), 77U);
  EXPECT_EQ(AfterPrefix("a\xff"), "b");
  EXPECT_EQ(AfterPrefix("\xff\xff"), "");
}

// Random and mutated bytes: an Error with kCorruption, or a value; nothing else.
TEST(FormatTest, GarbageNeverGetsThrough) {
  std::mt19937_64 random(7);
  const std::vector<std::string> seeds{EncodeInode(Symlink()),
                                       EncodeTomb({Symlink(), InodeId(9), "n", 5}),
                                       EncodeTotals({1, 2, 3, 4, {{CampusId(5), 6}}}),
                                       EncodeLocations({{CampusId(1), NodeId(2), Generation(3)}}),
                                       EncodeMember({CampusId(1), NodeId(0), "a", {"h:1"}}),
                                       EncodeDentry({InodeId(1), FileType::kFifo})};
  size_t refused = 0;
  for (int round = 0; round < 30000; ++round) {
    std::string bytes = seeds[random() % seeds.size()];
    for (uint64_t change = random() % 4; change > 0 && !bytes.empty(); --change) {
      switch (random() % 3) {
        case 0: bytes[random() % bytes.size()] = static_cast<char>(random()); break;
        case 1: bytes.resize(random() % (bytes.size() + 1)); break;
        default: bytes.push_back(static_cast<char>(random()));
      }
    }
    const auto check = [&](const auto& result) {
      if (result.ok()) return;
      ++refused;
      EXPECT_EQ(result.error().code(), ErrorCode::kCorruption);
    };
    check(DecodeInode(InodeId(1), bytes));
    check(DecodeTomb(InodeId(1), bytes));
    check(DecodeTotals(bytes));
    check(DecodeLocations(bytes));
    check(DecodeMember(CampusId(1), NodeId(1), bytes));
    check(DecodeDentry(bytes));
    check(DecodeLease(bytes));
    check(DecodePlace(bytes));
    check(DecodeInodeId(bytes));
    check(DecodeXattr(bytes));
  }
  EXPECT_GT(refused, 100000U);
}

TEST(FormatTest, ConflictNamesAreKnown) {
  EXPECT_TRUE(IsConflictName("a.conflict-2-17"));
  EXPECT_TRUE(IsConflictName("a.conflict-2-17.1"));
  EXPECT_FALSE(IsConflictName("a.conflict-2-"));
  EXPECT_FALSE(IsConflictName("a.conflict-2-17.txt"));
  EXPECT_FALSE(IsConflictName("a.conflict-"));
  EXPECT_FALSE(IsConflictName("a"));
}

TEST(FormatTest, ConflictInodesAreNobodyElses) {
  const InodeId copy = ConflictInode(CampusId(2), 17);
  EXPECT_EQ(copy.value >> 48, 0x8002U);
  EXPECT_NE(copy, ConflictInode(CampusId(3), 17));
  EXPECT_NE(copy, ConflictInode(CampusId(2), 18));
}

}  // namespace
}  // namespace quadfs::metadata
