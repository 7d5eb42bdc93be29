#include <algorithm>
#include <limits>

#include "metadata/ops/ops.h"
#include "metadata/permission.h"

namespace quadfs::metadata {

Result<void> ApplyPublish(TreeEdit& tree, Attributes& attributes, const Operation& op,
                          Generation before, CampusId executing) {
  attributes.generation = op.generation;
  attributes.size = op.size;
  attributes.root = op.root;
  attributes.mtime_ns = op.mtime_ns != 0 ? op.mtime_ns : op.now_ns;
  attributes.ctime_ns = tree.Time(attributes.ctime_ns);
  if (op.credentials.uid != 0) attributes.mode = WithoutSetId(attributes.mode);
  QUADFS_TRY(tree.DropCapability(attributes));
  tree.PutInode(attributes);

  const RowKey key = LocationKey(attributes.inode);
  const auto row = QUADFS_TRY(tree.Read(key));
  std::vector<Location> locations;
  if (row) locations = QUADFS_TRY(DecodeLocations(*row));
  std::erase_if(locations, [&](const Location& one) { return one.generation != before; });
  if (locations.size() >= kMaxLocations) locations.resize(kMaxLocations - 1);
  Location holder;
  holder.campus = executing;
  holder.node = op.location.node;
  holder.generation = op.generation;
  locations.push_back(holder);
  tree.Set(key, EncodeLocations(locations));
  return {};
}

Result<OpResult> ExecutePublish(TreeEdit& tree, const Operation& op, CampusId executing) {
  OpResult result;
  Attributes& attributes = result.attributes;
  // What a writer had open goes on where his version went when it lost a merge.
  const auto fork = QUADFS_TRY(FindFork(tree, op.inode, op.base));
  attributes = QUADFS_TRY(ReadInode(tree, fork.value_or(op.inode)));
  if (attributes.type != FileType::kRegular) {
    return Error(ErrorCode::kInvalidArgument, "only regular files have content");
  }
  if (op.base != attributes.generation) {
    return Error(ErrorCode::kStale, "the file has a newer version than the one changed");
  }
  if (op.generation <= op.base || op.size > std::numeric_limits<int64_t>::max()) {
    return Error(ErrorCode::kInvalidArgument, "a publish needs a higher version and a sane size");
  }
  QUADFS_TRY(ApplyPublish(tree, attributes, op, op.base, executing));
  if (fork) tree.Set(ForkKey(op.inode, op.generation), EncodeInodeId(*fork));
  return result;
}

}  // namespace quadfs::metadata
