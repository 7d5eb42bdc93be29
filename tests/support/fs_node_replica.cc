#include "tests/support/fs_node_replica.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <set>

#include "metadata/execute.h"

namespace quadfs::test {
namespace {

using metadata::Change;
using metadata::Family;
using metadata::RowChange;

constexpr CampusId kCampus{1};

template <typename T>
T Must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::cerr << "twin namespace: " << result.error().ToString() << "\n";
  std::abort();
}

std::unique_ptr<metadata::RowStore> OpenStore(const std::string& directory) {
  metadata::RowStore::Options options;
  options.cluster = "twin";
  return Must(metadata::RowStore::Open(directory, options));
}

/// What the rows changed, in the words of a Change.
Change Describe(const metadata::RowReader& before, const std::vector<RowChange>& rows) {
  Change change;
  std::set<InodeId> gone, buried;
  for (const RowChange& row : rows) {
    const auto family = metadata::FamilyOf(row.key);
    if (family == Family::kDentry) {
      const auto key = metadata::ParseDentryKey(row.key);
      change.dentries.emplace_back(key->parent, std::string(key->name));
    } else if (family == Family::kInode) {
      const InodeId inode(*metadata::ParseNumberKey(row.key));
      change.attributes.push_back(inode);
      const auto old_row = Must(before.Read(row.key));
      if (!row.value) gone.insert(inode);
      if (!row.value || !old_row) continue;
      if (Must(metadata::DecodeInode(inode, *row.value)).generation !=
          Must(metadata::DecodeInode(inode, *old_row)).generation) {
        change.contents.push_back(inode);
      }
    } else if (family == Family::kLocation) {
      change.locations.emplace_back(*metadata::ParseNumberKey(row.key));
    } else if (family == Family::kXattr) {
      change.xattrs.push_back(metadata::ParseXattrKey(row.key)->inode);
    }
  }
  change.removed.assign(gone.begin(), gone.end());
  return change;
}

}  // namespace

TwinNamespace::TwinNamespace(const std::string& directory)
    : store_(OpenStore(directory)), view_(*store_) {
  if (Must(store_->Read(metadata::InodeKey(kRootInode)))) return;
  metadata::StateWriter writer(*store_, totals_);
  const auto set = writer.SetAll(metadata::EmptyTree(Clock::System().WallNanoseconds()));
  if (!set.ok() || !store_->Write(writer.Take(), false).ok()) std::abort();
}

Result<metadata::OpResult> TwinNamespace::Submit(const metadata::Operation& operation,
                                                 const void* origin) {
  const MutexLock lock(mutex_);
  metadata::Effects effects = QUADFS_TRY(metadata::Execute(*store_, operation, kCampus));
  Change change = Describe(*store_, effects.rows);
  metadata::StateWriter writer(*store_, totals_);
  QUADFS_TRY(writer.SetAll(effects.rows));
  QUADFS_TRY(store_->Write(writer.Take(), false));
  change.view = effects.result.view = SequenceNumber(++position_);
  view_.SetPosition(change.view);
  for (TwinReplica* replica : replicas_) {
    change.own = replica == origin;
    replica->listener_.OnChange(change);
  }
  return std::move(effects.result);
}

TwinReplica::TwinReplica(TwinNamespace& names, NodeId node, metadata::ChangeListener& listener)
    : names_(names), node_(node), listener_(listener) {
  const MutexLock lock(names_.mutex_);
  names_.replicas_.push_back(this);
}

TwinReplica::~TwinReplica() {
  names_.locks_.ReleaseNode(kCampus, node_);
  const MutexLock lock(names_.mutex_);
  std::erase(names_.replicas_, this);
}

Result<void> TwinReplica::Reach() const {
  if (cut_) return Error(ErrorCode::kUnavailable, "the hub does not answer");
  return {};
}

Result<metadata::OpResult> TwinReplica::Submit(const metadata::Operation& operation, Deadline) {
  QUADFS_TRY(Reach());
  auto done = names_.Submit(operation, this);
  if (lose_answer_.exchange(false)) return Error(ErrorCode::kTimedOut, "the answer was lost");
  return done;
}

Result<void> TwinReplica::Barrier(bool, Deadline, InodeId) {
  QUADFS_TRY(Reach());
  ++barriers_;
  return {};
}

Result<InodeId> TwinReplica::NextInode(Deadline) {
  QUADFS_TRY(Reach());
  return names_.NextInode();
}

Result<void> TwinReplica::Lock(const metadata::LockRequest& request, Deadline) {
  QUADFS_TRY(Reach());
  return names_.locks_.Lock({kCampus, node_, request.owner}, request);
}

Result<std::optional<metadata::LockHolder>> TwinReplica::TestLock(
    const metadata::LockRequest& request, Deadline) {
  QUADFS_TRY(Reach());
  return names_.locks_.Test({kCampus, node_, request.owner}, request);
}

Result<void> TwinReplica::ReleaseLocks(InodeId inode, uint64_t owner, Deadline) {
  names_.locks_.Release(inode, {kCampus, node_, owner});
  return {};
}

metadata::NodeReplica::Status TwinReplica::status() const {
  Status status;
  status.connected = status.main_connected = !cut_;
  return status;
}

}  // namespace quadfs::test
