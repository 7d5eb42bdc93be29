#include <algorithm>

#include "metadata/execute.h"
#include "metadata/tree_rows.h"

namespace quadfs::metadata {
namespace {

// Collects what an operation needs. What does not exist needs nothing: the operation itself
// will say so.
class Collector {
 public:
  explicit Collector(const RowReader& rows) : rows_(rows) {}

  void Add(InodeId directory) {
    if (directory) needs_.directories.push_back(directory);
  }
  /// The lease that covers an inode's own row.
  void AddOwner(const Attributes& attributes) {
    Add(attributes.type == FileType::kDirectory ? attributes.inode : attributes.parent);
  }
  Result<void> AddInode(InodeId inode) {
    if (const auto attributes = QUADFS_TRY(FindInode(rows_, inode))) AddOwner(*attributes);
    return {};
  }
  /// A name that goes: its inode too, and the name that becomes its primary one.
  Result<void> AddRemoved(const Attributes& victim, const Place& place) {
    AddOwner(victim);
    if (victim.nlink < 2 || !IsPrimaryName(victim, place.first, place.second)) return {};
    for (const Place& name : QUADFS_TRY(NamesOf(rows_, victim.inode, 2))) {
      if (name != place) {
        Add(name.first);
        break;
      }
    }
    return {};
  }
  Result<void> AddRename(const Operation& op) {
    Add(op.parent);
    Add(op.new_parent);
    const Place to(op.new_parent, op.new_name);
    const auto source = QUADFS_TRY(FindName(rows_, op.parent, op.name));
    const auto target = QUADFS_TRY(FindName(rows_, to.first, to.second));
    const bool across = op.parent != op.new_parent;
    if (source) {
      AddOwner(*source);
      if (across && source->type == FileType::kDirectory) needs_.at_main = true;
    }
    if (target) {
      QUADFS_TRY(AddRemoved(*target, to));
      if (across && op.rename_flags == kRenameExchange && target->type == FileType::kDirectory) {
        needs_.at_main = true;
      }
    }
    return {};
  }
  void AtMain() { needs_.at_main = true; }

  LeaseNeeds Take() {
    std::sort(needs_.directories.begin(), needs_.directories.end());
    const auto end = std::unique(needs_.directories.begin(), needs_.directories.end());
    needs_.directories.erase(end, needs_.directories.end());
    return std::move(needs_);
  }

 private:
  const RowReader& rows_;
  LeaseNeeds needs_;
};

}  // namespace

Result<LeaseNeeds> NeedsOf(const RowReader& state, const Operation& operation) {
  Collector needs(state);
  switch (operation.kind) {
    case OpKind::kCreate: needs.Add(operation.parent); break;
    case OpKind::kLink:
      needs.Add(operation.parent);
      QUADFS_TRY(needs.AddInode(operation.inode));
      break;
    case OpKind::kUnlink:
    case OpKind::kRmdir: {
      needs.Add(operation.parent);
      const auto victim = QUADFS_TRY(FindName(state, operation.parent, operation.name));
      if (victim) {
        QUADFS_TRY(needs.AddRemoved(*victim, Place(operation.parent, operation.name)));
      }
      break;
    }
    case OpKind::kRename: QUADFS_TRY(needs.AddRename(operation)); break;
    case OpKind::kSetAttributes:
    case OpKind::kSetXattr:
    case OpKind::kRemoveXattr: QUADFS_TRY(needs.AddInode(operation.inode)); break;
    case OpKind::kPublish: {
      const auto fork = QUADFS_TRY(FindFork(state, operation.inode, operation.base));
      QUADFS_TRY(needs.AddInode(fork.value_or(operation.inode)));
      break;
    }
    case OpKind::kLocate:
    case OpKind::kMember: needs.AtMain(); break;
  }
  return needs.Take();
}

}  // namespace quadfs::metadata
