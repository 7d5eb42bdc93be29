#include "tests/support/metadata_tree.h"

#include "metadata/tree_rows.h"
#include "tests/support/matchers.h"

namespace quadfs::test {

using namespace metadata;  // NOLINT: a test's support file.

Credentials User(uint32_t uid, uint32_t gid) { return Credentials{uid, gid, {}}; }

Result<OpResult> TestTree::Run(Operation op) {
  op.now_ns = ++now_;
  op.credentials = as;
  auto effects = QUADFS_TRY(Execute(rows_, op, kMainCampus));
  StateWriter writer(rows_, totals_);
  QUADFS_TRY(writer.SetAll(effects.rows));
  rows_.Apply(writer.Take());
  EXPECT_THAT(TreeFaults(rows_), testing::IsEmpty());
  EXPECT_EQ(StoredTotals(rows_), TotalsFromScratch(rows_));
  return std::move(effects.result);
}

Result<OpResult> TestTree::TryCreate(InodeId parent, const std::string& name, FileType type,
                                     uint32_t mode) {
  Operation op;
  op.kind = OpKind::kCreate;
  op.parent = parent;
  op.name = name;
  op.type = type;
  op.mode = mode;
  op.inode = InodeId(next_inode_++);
  if (type == FileType::kSymlink) op.symlink_target = "target";
  return Run(op);
}

InodeId TestTree::Create(InodeId parent, const std::string& name, uint32_t mode) {
  const auto result = TryCreate(parent, name, FileType::kRegular, mode);
  EXPECT_THAT(result, IsOk());
  return result.ok() ? result->attributes.inode : InodeId();
}

InodeId TestTree::MakeDirectory(InodeId parent, const std::string& name, uint32_t mode) {
  const auto result = TryCreate(parent, name, FileType::kDirectory, mode);
  EXPECT_THAT(result, IsOk());
  return result.ok() ? result->attributes.inode : InodeId();
}

Result<OpResult> TestTree::Link(InodeId inode, InodeId parent, const std::string& name) {
  Operation op;
  op.kind = OpKind::kLink;
  op.inode = inode;
  op.parent = parent;
  op.name = name;
  return Run(op);
}

Result<OpResult> TestTree::Unlink(InodeId parent, const std::string& name) {
  Operation op;
  op.kind = OpKind::kUnlink;
  op.parent = parent;
  op.name = name;
  return Run(op);
}

Result<OpResult> TestTree::Rmdir(InodeId parent, const std::string& name) {
  Operation op;
  op.kind = OpKind::kRmdir;
  op.parent = parent;
  op.name = name;
  return Run(op);
}

Result<OpResult> TestTree::Rename(InodeId parent, const std::string& name, InodeId new_parent,
                                  const std::string& new_name, uint32_t flags) {
  Operation op;
  op.kind = OpKind::kRename;
  op.parent = parent;
  op.name = name;
  op.new_parent = new_parent;
  op.new_name = new_name;
  op.rename_flags = flags;
  return Run(op);
}

Result<OpResult> TestTree::SetMode(InodeId inode, uint32_t mode) {
  Operation op;
  op.kind = OpKind::kSetAttributes;
  op.inode = inode;
  op.set_mask = kSetMode;
  op.mode = mode;
  return Run(op);
}

Result<OpResult> TestTree::SetXattr(InodeId inode, const std::string& name,
                                    const std::string& value, uint32_t flags) {
  Operation op;
  op.kind = OpKind::kSetXattr;
  op.inode = inode;
  op.xattr_name = name;
  op.xattr_value = value;
  op.xattr_flags = flags;
  return Run(op);
}

Result<OpResult> TestTree::RemoveXattr(InodeId inode, const std::string& name) {
  Operation op;
  op.kind = OpKind::kRemoveXattr;
  op.inode = inode;
  op.xattr_name = name;
  return Run(op);
}

Result<OpResult> TestTree::Publish(InodeId inode, Generation base, Generation generation,
                                   uint64_t size, NodeId node) {
  Operation op;
  op.kind = OpKind::kPublish;
  op.inode = inode;
  op.base = base;
  op.generation = generation;
  op.size = size;
  op.root.bytes[0] = static_cast<uint8_t>(generation.value);
  op.location.node = node;
  return Run(op);
}

Result<OpResult> TestTree::Locate(InodeId inode, const Location& location, bool gone) {
  Operation op;
  op.kind = OpKind::kLocate;
  op.inode = inode;
  op.location = location;
  op.location_gone = gone;
  return Run(op);
}

Result<Attributes> TestTree::Find(InodeId parent, const std::string& name) const {
  auto found = QUADFS_TRY(FindName(rows_, parent, name));
  if (!found) return Error(ErrorCode::kNotFound, "no such name");
  return std::move(*found);
}

Result<Attributes> TestTree::Get(InodeId inode) const { return ReadInode(rows_, inode); }

std::vector<Location> TestTree::Locations(InodeId inode) const {
  const auto row = rows_.Read(LocationKey(inode)).value();
  return row ? DecodeLocations(*row).value() : std::vector<Location>();
}

std::string TestTree::Xattr(InodeId inode, const std::string& name) const {
  const auto row = rows_.Read(XattrKey(inode, name)).value();
  return row ? DecodeXattr(*row).value() : "(none)";
}

Totals TestTree::TotalsOf(InodeId directory) const {
  const auto row = rows_.Read(TotalKey(directory)).value();
  return row ? DecodeTotals(*row).value() : Totals();
}

void TestTree::Overwrite(const Attributes& attributes) {
  rows_.Set(InodeKey(attributes.inode), EncodeInode(attributes));
}

}  // namespace quadfs::test
