#pragma once

#include <atomic>

#include "metadata/row_store.h"
#include "metadata/view.h"

namespace quadfs::metadata {

/// View over the rows of a RowStore. Lookups read without a snapshot and repeat under one if the
/// rows disagree, so that a name that is replaced meanwhile is never missed.
/// Lifetime: within that of the store.
class RocksView final : public View {
 public:
  explicit RocksView(const RowStore& store) : store_(store) {}

  /// Told by the one who applies entries, after the write.
  void SetPosition(SequenceNumber position) { position_.store(position.value); }

  Result<Attributes> Lookup(InodeId parent, std::string_view name) const override;
  Result<Attributes> Get(InodeId inode) const override;
  Result<std::vector<DirectoryEntry>> List(InodeId directory, std::string_view after, size_t limit,
                                           bool with_attributes) const override;
  Result<std::string> GetXattr(InodeId inode, std::string_view name) const override;
  Result<std::vector<std::string>> ListXattr(InodeId inode) const override;
  Result<std::vector<Location>> Locations(InodeId inode) const override;
  Result<Totals> SubtreeTotals(InodeId directory) const override;
  Result<std::pair<InodeId, std::string>> NameOf(InodeId inode) const override;
  Result<std::string> PathOf(InodeId inode) const override;
  Result<Attributes> Resolve(std::string_view path, const Credentials& credentials) const override;
  Result<std::optional<InodeId>> ForkOf(const ObjectId& object) const override;
  Result<Member> FindMember(CampusId campus, NodeId node) const override;
  Result<std::vector<Member>> Members() const override;
  SequenceNumber Position() const override { return SequenceNumber(position_.load()); }

 private:
  const RowStore& store_;
  std::atomic<uint64_t> position_{0};
};

}  // namespace quadfs::metadata
