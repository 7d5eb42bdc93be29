#include "metadata/codec.h"

#include <random>

#include "metadata/execute.h"
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

Operation FullOperation() {
  Operation op;
  op.kind = OpKind::kMember;
  op.credentials = {1, 2, {3, 4}};
  op.now_ns = -5;
  op.parent = InodeId(6);
  op.name = "name";
  op.inode = InodeId(7);
  op.new_parent = InodeId(8);
  op.new_name = "new\xff";
  op.rename_flags = 1;
  op.type = FileType::kSymlink;
  op.mode = 0644;
  op.uid = 9;
  op.gid = 10;
  op.rdev = 11;
  op.symlink_target = "target";
  op.set_mask = 12;
  op.atime_ns = 13;
  op.mtime_ns = -14;
  op.xattr_name = "user.a";
  op.xattr_value = std::string("\0v", 2);
  op.xattr_flags = 2;
  op.base = Generation(15);
  op.generation = Generation(16);
  op.size = 17;
  op.root.bytes[3] = 18;
  op.location = {CampusId(19), NodeId(20), Generation(21), true};
  op.location_gone = true;
  op.member = {CampusId(22), NodeId(23), "m", {"a:1"}};
  return op;
}

LogEntry FullEntry() {
  LogEntry entry;
  entry.sequence = SequenceNumber(1);
  entry.epoch = Epoch(2);
  entry.campus = CampusId(3);
  entry.campus_op = 4;
  entry.node = NodeId(5);
  entry.node_op = 6;
  entry.base = SequenceNumber(7);
  entry.kind = OpKind::kMember;
  entry.verdict = 1;
  entry.directories = {InodeId(8), InodeId(9)};
  entry.rows = EmptyTree(5);
  entry.rows.push_back({TombKey(InodeId(1)), std::nullopt});
  entry.rows.push_back({LinkKey(InodeId(1), InodeId(2), "n"), EncodeLink()});
  entry.seen = {{InodeKey(InodeId(1)), 0}, {InodeKey(InodeId(2)), UINT64_MAX}};
  entry.operation = FullOperation();
  return entry;
}

TEST(CodecTest, AnEntryComesBackWithEveryField) {
  const LogEntry entry = FullEntry();
  const std::string bytes = Encode(entry);
  const auto decoded = DecodeLogEntry(bytes);
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(decoded->sequence, entry.sequence);
  EXPECT_EQ(decoded->epoch, entry.epoch);
  EXPECT_EQ(decoded->campus, entry.campus);
  EXPECT_EQ(decoded->campus_op, entry.campus_op);
  EXPECT_EQ(decoded->node, entry.node);
  EXPECT_EQ(decoded->node_op, entry.node_op);
  EXPECT_EQ(decoded->base, entry.base);
  EXPECT_EQ(decoded->kind, entry.kind);
  EXPECT_EQ(decoded->verdict, entry.verdict);
  EXPECT_EQ(decoded->directories, entry.directories);
  EXPECT_EQ(decoded->rows, entry.rows);
  EXPECT_EQ(decoded->seen, entry.seen);
  ASSERT_TRUE(decoded->operation.has_value());
  EXPECT_EQ(Encode(*decoded), bytes);
}

TEST(CodecTest, AnOperationComesBackWithEveryField) {
  const Operation op = FullOperation();
  const auto decoded = DecodeOperation(Encode(op));
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(decoded->credentials.groups, op.credentials.groups);
  EXPECT_EQ(decoded->now_ns, op.now_ns);
  EXPECT_EQ(decoded->new_name, op.new_name);
  EXPECT_EQ(decoded->mtime_ns, op.mtime_ns);
  EXPECT_EQ(decoded->xattr_value, op.xattr_value);
  EXPECT_EQ(decoded->root, op.root);
  EXPECT_EQ(decoded->location, op.location);
  EXPECT_EQ(decoded->member.addresses, op.member.addresses);
  EXPECT_EQ(Encode(*decoded), Encode(op));
}

TEST(CodecTest, AResultComesBackWithEveryField) {
  OpResult result;
  result.view = SequenceNumber(5);
  result.attributes.inode = InodeId(7);
  result.attributes.size = 9;
  result.replaced = Attributes();
  result.replaced->inode = InodeId(8);
  const auto decoded = DecodeOpResult(Encode(result));
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(decoded->view, result.view);
  EXPECT_EQ(decoded->attributes, result.attributes);
  EXPECT_EQ(decoded->replaced, result.replaced);
  EXPECT_EQ(DecodeAttributes(Encode(result.attributes)).value(), result.attributes);
}

// Field numbers are frozen: these bytes never change.
TEST(CodecTest, GoldenBytes) {
  Operation op;
  op.kind = OpKind::kUnlink;
  op.credentials.uid = 5;
  op.now_ns = 3;
  op.parent = InodeId(1);
  op.name = "f";
  EXPECT_EQ(Hex(Encode(op)),
            "08031202080518062001"
            "2a0166"
            "5001");
  LogEntry entry;
  entry.sequence = SequenceNumber(1);
  entry.campus = CampusId(2);
  entry.kind = OpKind::kUnlink;
  entry.rows = {{LinkKey(InodeId(3), InodeId(1), "f"), std::nullopt},
                {XattrKey(InodeId(3), "a"), "\x01v"}};
  entry.seen = {{InodeKey(InodeId(3)), 0x10}};
  EXPECT_EQ(Hex(Encode(entry)),
            "080118024003"
            "5a140a12030000000000000003000000000000000166"
            "5a120a0a0400000000000000036110011a020176"
            "62140a09020000000000000003111000000000000000");
}

TEST(CodecTest, WhatIsOutOfBoundsIsRefused) {
  LogEntry entry = FullEntry();
  entry.rows = {{"\x7fkey", "value"}};
  EXPECT_THAT(DecodeLogEntry(Encode(entry)), IsError(ErrorCode::kCorruption)) << "no such family";
  entry.rows = {{MetaKey("format"), "9"}};
  EXPECT_THAT(DecodeLogEntry(Encode(entry)), IsError(ErrorCode::kCorruption)) << "not state";
  entry.rows = {{DentryKey(InodeId(1), std::string(1000, 'x')), ""}};
  EXPECT_THAT(DecodeLogEntry(Encode(entry)), IsError(ErrorCode::kCorruption)) << "key too long";
  entry.rows = {{XattrKey(InodeId(1), "a"), std::string(kMaxRowValueBytes + 1, 'x')}};
  EXPECT_THAT(DecodeLogEntry(Encode(entry)), IsError(ErrorCode::kCorruption)) << "value too long";
  entry = FullEntry();
  entry.kind = static_cast<OpKind>(200);
  EXPECT_THAT(DecodeLogEntry(Encode(entry)), IsError(ErrorCode::kCorruption)) << "no such kind";
  Operation op = FullOperation();
  op.credentials.groups.assign(kMaxGroups + 1, 5);
  EXPECT_THAT(DecodeOperation(Encode(op)), IsError(ErrorCode::kCorruption)) << "groups";
  EXPECT_THAT(DecodeLogEntry(std::string(kMaxEntryBytes + 1, '\0')),
              IsError(ErrorCode::kCorruption));
  EXPECT_THAT(DecodeOpResult(""), IsError(ErrorCode::kCorruption)) << "without attributes";
}

TEST(CodecTest, GarbageNeverGetsThrough) {
  std::mt19937_64 random(11);
  const std::vector<std::string> seeds{Encode(FullEntry()), Encode(FullOperation()),
                                       Encode(OpResult()), Encode(FullEntry().rows[0])};
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = seeds[random() % seeds.size()];
    for (uint64_t change = 1 + random() % 4; change > 0 && !bytes.empty(); --change) {
      switch (random() % 3) {
        case 0: bytes[random() % bytes.size()] = static_cast<char>(random()); break;
        case 1: bytes.resize(random() % (bytes.size() + 1)); break;
        default: bytes.insert(random() % bytes.size(), 1, static_cast<char>(random()));
      }
    }
    const auto check = [&](const auto& result) {
      if (result.ok()) return;
      ++refused;
      EXPECT_EQ(result.error().code(), ErrorCode::kCorruption);
    };
    check(DecodeLogEntry(bytes));
    check(DecodeOperation(bytes));
    check(DecodeOpResult(bytes));
    check(DecodeAttributes(bytes));
    check(DecodeRowChange(bytes));
  }
  EXPECT_GT(refused, 50000U);
}

}  // namespace
}  // namespace quadfs::metadata
