#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cache/tree_store.h"
#include "fs/hub/store_records.h"
#include "metadata/view.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// Puts files and directories of the campus's store where the namespace has them. Each call brings
/// one inode to what the view says now; repeated in any order, all converge.
///
/// `structure_` is held across renames on the store's disk (it orders changes of names), never
/// while an upload is checked: then its target name is claimed instead.
/// Threads: every method may be called concurrently. Lifetime: its parts outlive it.
class StoreTree {
 public:
  /// `all_directories`: directories are made as soon as the namespace has them (at main), not only
  /// when a file arrives. `again`: told of inodes that had to step aside.
  StoreTree(metadata::LocalStore& local, cache::TreeStore& store, const metadata::View& view,
            bool all_directories, std::function<void(InodeId)> again)
      : records_(local),
        store_(store),
        view_(view),
        all_directories_(all_directories),
        again_(std::move(again)) {}

  /// Finishes an upload at its place. Errors: as Incoming::Commit; kStale (the inode is gone),
  /// kBusy (another upload is taking that name).
  Result<void> Commit(const ObjectId& object, cache::Incoming& incoming);
  /// Name, attributes, existence: as the view says. Errors: kBusy (try again later), kIo, ….
  Result<void> Check(InodeId inode);

  /// The version is not the inode's any more: it leaves the tree.
  Result<void> Drop(const ObjectId& object);

  const StoreRecords& records() const { return records_; }

 private:
  using Place = std::pair<InodeId, std::string>;
  Result<std::string> EnsureDirectory(InodeId directory, int depth) QUADFS_REQUIRES(structure_);
  Result<void> MakeWay(const Place& place, InodeId self) QUADFS_REQUIRES(structure_);
  Result<void> StepAside(InodeId inode, const StoreRecord& record) QUADFS_REQUIRES(structure_);
  Result<void> CheckFile(InodeId inode, StoreRecord record, const metadata::Attributes& attributes)
      QUADFS_REQUIRES(structure_);
  Result<void> CheckDirectory(InodeId inode, StoreRecord record,
                              const metadata::Attributes& attributes) QUADFS_REQUIRES(structure_);
  Result<void> RemoveGone(InodeId inode, const StoreRecord& record) QUADFS_REQUIRES(structure_);
  Result<void> MoveTree(InodeId directory, const std::string& from, const std::string& to,
                        int depth) QUADFS_REQUIRES(structure_);
  Result<cache::Placement> Prepare(const ObjectId& object, StoreRecord& record)
      QUADFS_REQUIRES(structure_);

  StoreRecords records_;
  cache::TreeStore& store_;
  const metadata::View& view_;
  const bool all_directories_;
  const std::function<void(InodeId)> again_;
  Mutex structure_;
  std::set<Place> claimed_
      QUADFS_GUARDED_BY(structure_);  ///< Names that uploads are about to take.
  std::set<InodeId> committing_ QUADFS_GUARDED_BY(structure_);
};

}  // namespace quadfs::fs
