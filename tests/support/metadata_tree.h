#pragma once

#include <cstdint>
#include <string>

#include "metadata/execute.h"
#include "metadata/state_writer.h"
#include "tests/support/metadata_rows.h"

namespace quadfs::test {

/// A namespace in memory on which operations run one after the other, as on a lone hub. After each
/// one it checks that the tree is well-formed and the totals are right.
class TestTree {
 public:
  TestTree() { rows_.Apply(metadata::EmptyTree(1)); }

  /// Executes and applies. The clock is one tick later each time.
  Result<metadata::OpResult> Run(metadata::Operation op);

  /// The caller of the operations below. Root at first.
  metadata::Credentials as;

  Result<metadata::OpResult> TryCreate(InodeId parent, const std::string& name,
                                       metadata::FileType type = metadata::FileType::kRegular,
                                       uint32_t mode = 0644);
  InodeId Create(InodeId parent, const std::string& name, uint32_t mode = 0644);
  InodeId MakeDirectory(InodeId parent, const std::string& name, uint32_t mode = 0755);
  Result<metadata::OpResult> Link(InodeId inode, InodeId parent, const std::string& name);
  Result<metadata::OpResult> Unlink(InodeId parent, const std::string& name);
  Result<metadata::OpResult> Rmdir(InodeId parent, const std::string& name);
  Result<metadata::OpResult> Rename(InodeId parent, const std::string& name, InodeId new_parent,
                                    const std::string& new_name, uint32_t flags = 0);
  Result<metadata::OpResult> SetMode(InodeId inode, uint32_t mode);
  Result<metadata::OpResult> SetXattr(InodeId inode, const std::string& name,
                                      const std::string& value, uint32_t flags = 0);
  Result<metadata::OpResult> RemoveXattr(InodeId inode, const std::string& name);
  Result<metadata::OpResult> Publish(InodeId inode, Generation base, Generation generation,
                                     uint64_t size, NodeId node = NodeId(7));
  Result<metadata::OpResult> Locate(InodeId inode, const metadata::Location& location,
                                    bool gone = false);

  /// kNotFound: no such name or inode.
  Result<metadata::Attributes> Find(InodeId parent, const std::string& name) const;
  Result<metadata::Attributes> Get(InodeId inode) const;
  std::vector<metadata::Location> Locations(InodeId inode) const;
  std::string Xattr(InodeId inode, const std::string& name) const;
  metadata::Totals TotalsOf(InodeId directory) const;

  /// Changes an inode's row beside all operations.
  void Overwrite(const metadata::Attributes& attributes);

  const MapRows& rows() const { return rows_; }
  int64_t now() const { return now_; }

 private:
  MapRows rows_;
  metadata::TotalsCache totals_;
  int64_t now_ = 1000;
  uint64_t next_inode_ = 100;
};

/// Some user without rights, in group `gid`.
metadata::Credentials User(uint32_t uid, uint32_t gid = 100);

}  // namespace quadfs::test
