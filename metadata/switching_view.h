#pragma once

#include <memory>

#include "metadata/rocks_view.h"
#include "metadata/row_store.h"
#include "transport/base/mutex.h"

namespace quadfs::metadata {

/// A View whose store may be exchanged under it (bootstrap): each call runs on one store, which
/// lives until the call ends. Threads: every method may be called concurrently.
class SwitchingView final : public View {
 public:
  struct Replica {
    std::unique_ptr<RowStore> store;
    std::unique_ptr<RocksView> view;
  };

  std::shared_ptr<Replica> Current() const {
    MutexLock lock(mutex_);
    return current_;
  }
  void Exchange(std::shared_ptr<Replica> replica) {
    MutexLock lock(mutex_);
    current_ = std::move(replica);
  }

  Result<Attributes> Lookup(InodeId parent, std::string_view name) const override {
    return Current()->view->Lookup(parent, name);
  }
  Result<Attributes> Get(InodeId inode) const override { return Current()->view->Get(inode); }
  Result<std::vector<DirectoryEntry>> List(InodeId directory, std::string_view after, size_t limit,
                                           bool with_attributes) const override {
    return Current()->view->List(directory, after, limit, with_attributes);
  }
  Result<std::string> GetXattr(InodeId inode, std::string_view name) const override {
    return Current()->view->GetXattr(inode, name);
  }
  Result<std::vector<std::string>> ListXattr(InodeId inode) const override {
    return Current()->view->ListXattr(inode);
  }
  Result<std::vector<Location>> Locations(InodeId inode) const override {
    return Current()->view->Locations(inode);
  }
  Result<Totals> SubtreeTotals(InodeId directory) const override {
    return Current()->view->SubtreeTotals(directory);
  }
  Result<std::pair<InodeId, std::string>> NameOf(InodeId inode) const override {
    return Current()->view->NameOf(inode);
  }
  Result<std::string> PathOf(InodeId inode) const override {
    return Current()->view->PathOf(inode);
  }
  Result<Attributes> Resolve(std::string_view path, const Credentials& credentials) const override {
    return Current()->view->Resolve(path, credentials);
  }
  Result<std::optional<InodeId>> ForkOf(const ObjectId& object) const override {
    return Current()->view->ForkOf(object);
  }
  Result<Member> FindMember(CampusId campus, NodeId node) const override {
    return Current()->view->FindMember(campus, node);
  }
  Result<std::vector<Member>> Members() const override { return Current()->view->Members(); }
  SequenceNumber Position() const override { return Current()->view->Position(); }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<Replica> current_ QUADFS_GUARDED_BY(mutex_);
};

}  // namespace quadfs::metadata
