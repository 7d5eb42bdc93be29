#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cache/manifest.h"
#include "metadata/view.h"
#include "transport/base/mutex.h"

namespace quadfs::test {

/// A namespace in memory that a test edits directly, the same for all hubs and nodes of the test.
/// Threads: every method may be called concurrently.
class TestNamespace final : public metadata::View {
 public:
  TestNamespace() {
    metadata::Attributes root;
    root.inode = kRootInode;
    root.type = metadata::FileType::kDirectory;
    root.mode = 0755;
    root.nlink = 2;
    rows_[kRootInode] = {root, InodeId(0), ""};
  }

  InodeId Make(InodeId parent, const std::string& name, metadata::FileType type, uint32_t mode) {
    MutexLock lock(mutex_);
    metadata::Attributes attributes;
    attributes.inode = InodeId(next_inode_++);
    attributes.type = type;
    attributes.mode = mode;
    attributes.nlink = 1;
    attributes.parent = parent;
    attributes.mtime_ns = 1'700'000'000'000'000'000;
    rows_[attributes.inode] = {attributes, parent, name};
    return attributes.inode;
  }
  InodeId MakeFile(InodeId parent, const std::string& name) {
    return Make(parent, name, metadata::FileType::kRegular, 0644);
  }
  InodeId MakeDirectory(InodeId parent, const std::string& name) {
    return Make(parent, name, metadata::FileType::kDirectory, 0755);
  }
  void Publish(const ObjectId& object, const cache::Manifest& manifest,
               const metadata::Location& holder) {
    MutexLock lock(mutex_);
    auto& attributes = rows_.at(object.inode).attributes;
    attributes.generation = object.generation;
    attributes.size = manifest.size_bytes();
    attributes.root = manifest.Root();
    auto& list = locations_[object.inode];
    std::erase_if(list, [&](const auto& one) { return one.generation < object.generation; });
    if (holder.campus) list.push_back(holder);
  }
  void Rename(InodeId inode, InodeId parent, const std::string& name) {
    MutexLock lock(mutex_);
    auto& row = rows_.at(inode);
    row.attributes.parent = row.parent = parent;
    row.name = name;
  }
  void Remove(InodeId inode) {
    MutexLock lock(mutex_);
    rows_.at(inode).attributes.nlink = 0;
  }
  void Edit(InodeId inode, const std::function<void(metadata::Attributes&)>& edit) {
    MutexLock lock(mutex_);
    edit(rows_.at(inode).attributes);
  }
  void SetXattr(InodeId inode, const std::string& name, const std::string& value) {
    MutexLock lock(mutex_);
    rows_.at(inode).attributes.has_xattr = true;
    xattrs_[{inode, name}] = value;
  }
  void Locate(InodeId inode, const metadata::Location& location) {
    MutexLock lock(mutex_);
    auto& list = locations_[inode];
    if (std::find(list.begin(), list.end(), location) != list.end()) return;
    if (!location.node && location.verified) {
      std::erase_if(list, [&](const auto& one) {
        return one.node && one.campus == location.campus && one.generation == location.generation;
      });
    }
    list.push_back(location);
  }
  void ForgetLocations(InodeId inode) {
    MutexLock lock(mutex_);
    locations_.erase(inode);
  }
  void AddMember(const metadata::Member& member) {
    MutexLock lock(mutex_);
    members_.push_back(member);
  }
  void SetFork(const ObjectId& object, InodeId carrier) {
    MutexLock lock(mutex_);
    forks_[object] = carrier;
  }
  void SetTotals(InodeId directory, const metadata::Totals& totals) {
    MutexLock lock(mutex_);
    totals_[directory] = totals;
  }
  bool Has(InodeId inode, const metadata::Location& location) const {
    const auto list = Locations(inode);
    return list.ok() && std::find(list->begin(), list->end(), location) != list->end();
  }

  Result<metadata::Attributes> Get(InodeId inode) const override {
    MutexLock lock(mutex_);
    const auto found = rows_.find(inode);
    if (found == rows_.end()) return Error(ErrorCode::kNotFound, "no such inode");
    return found->second.attributes;
  }
  Result<std::pair<InodeId, std::string>> NameOf(InodeId inode) const override {
    MutexLock lock(mutex_);
    const auto found = rows_.find(inode);
    if (found == rows_.end()) return Error(ErrorCode::kNotFound, "no such inode");
    return std::make_pair(found->second.parent, found->second.name);
  }
  Result<std::string> GetXattr(InodeId inode, std::string_view name) const override {
    MutexLock lock(mutex_);
    const auto found = xattrs_.find({inode, std::string(name)});
    if (found == xattrs_.end()) return Error(ErrorCode::kNoAttribute, "no such attribute");
    return found->second;
  }
  Result<std::vector<metadata::Location>> Locations(InodeId inode) const override {
    MutexLock lock(mutex_);
    const auto found = locations_.find(inode);
    return found == locations_.end() ? std::vector<metadata::Location>() : found->second;
  }
  Result<metadata::Totals> SubtreeTotals(InodeId directory) const override {
    MutexLock lock(mutex_);
    const auto found = totals_.find(directory);
    return found == totals_.end() ? metadata::Totals() : found->second;
  }
  Result<std::optional<InodeId>> ForkOf(const ObjectId& object) const override {
    MutexLock lock(mutex_);
    const auto found = forks_.find(object);
    return found == forks_.end() ? std::optional<InodeId>() : found->second;
  }
  Result<metadata::Member> FindMember(CampusId campus, NodeId node) const override {
    MutexLock lock(mutex_);
    for (const auto& member : members_) {
      if (member.campus == campus && member.node == node) return member;
    }
    return Error(ErrorCode::kNotFound, "no such member");
  }
  // Not used by the data plane.
  Result<metadata::Attributes> Lookup(InodeId, std::string_view) const override { return Unused(); }
  Result<std::vector<metadata::DirectoryEntry>> List(InodeId, std::string_view, size_t,
                                                     bool) const override {
    return Unused();
  }
  Result<std::vector<std::string>> ListXattr(InodeId) const override { return Unused(); }
  Result<std::string> PathOf(InodeId) const override { return Unused(); }
  Result<metadata::Attributes> Resolve(std::string_view,
                                       const metadata::Credentials&) const override {
    return Unused();
  }
  Result<std::vector<metadata::Member>> Members() const override { return Unused(); }
  SequenceNumber Position() const override { return SequenceNumber(1); }

 private:
  static Error Unused() {
    return {ErrorCode::kNotSupported, "the test namespace has no such call"};
  }
  struct Row {
    metadata::Attributes attributes;
    InodeId parent;
    std::string name;
  };
  mutable Mutex mutex_;
  std::map<InodeId, Row> rows_ QUADFS_GUARDED_BY(mutex_);
  std::map<InodeId, std::vector<metadata::Location>> locations_ QUADFS_GUARDED_BY(mutex_);
  std::map<std::pair<InodeId, std::string>, std::string> xattrs_ QUADFS_GUARDED_BY(mutex_);
  std::map<ObjectId, InodeId> forks_ QUADFS_GUARDED_BY(mutex_);
  std::map<InodeId, metadata::Totals> totals_ QUADFS_GUARDED_BY(mutex_);
  std::vector<metadata::Member> members_ QUADFS_GUARDED_BY(mutex_);
  uint64_t next_inode_ QUADFS_GUARDED_BY(mutex_) = 100;
};

}  // namespace quadfs::test
