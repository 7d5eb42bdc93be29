#include "fs/data/cached_bytes.h"

#include "fs/data/proto/data.pb.h"

namespace quadfs::fs {

std::string CacheReportMessage::Encode() const {
  data::CacheReport report;
  report.set_campus(campus.value);
  report.set_node(node.value);
  report.set_reset(reset);
  for (const auto& [inode, row] : rows) {
    auto* item = report.add_rows();
    item->set_inode(inode.value);
    item->set_generation(row.generation.value);
    item->set_bytes(row.bytes);
  }
  return report.SerializeAsString();
}

Result<CacheReportMessage> CacheReportMessage::Decode(const std::string& bytes) {
  data::CacheReport report;
  if (!report.ParseFromString(bytes) ||
      static_cast<size_t>(report.rows_size()) > 2 * kMaxCachedRows) {
    return Error(ErrorCode::kCorruption, "a cache report cannot be read");
  }
  CacheReportMessage message{CampusId(report.campus()), NodeId(report.node()), report.reset(), {}};
  message.rows.reserve(static_cast<size_t>(report.rows_size()));
  for (const auto& item : report.rows()) {
    message.rows.push_back({InodeId(item.inode()), {Generation(item.generation()), item.bytes()}});
  }
  return message;
}

std::vector<CachedBytes::Holder> CachedBytes::HoldersOf(InodeId inode,
                                                        Generation generation) const {
  std::vector<Holder> holders;
  MutexLock lock(mutex_);
  for (const auto& [id, node] : nodes_) {
    const auto row = node.rows.find(inode);
    if (row != node.rows.end() && row->second.generation == generation) {
      holders.push_back({id, node.campus, row->second.bytes});
    }
  }
  return holders;
}

void CachedBytes::Apply(const CacheReportMessage& message) {
  MutexLock lock(mutex_);
  if (nodes_.size() >= kMaxNodes && !nodes_.contains(message.node)) return;
  Node& node = nodes_[message.node];
  node.campus = message.campus;
  if (message.reset) node.rows.clear();
  for (const auto& [inode, row] : message.rows) {
    if (row.bytes == 0) {
      node.rows.erase(inode);
    } else if (node.rows.size() < kMaxCachedRows || node.rows.contains(inode)) {
      node.rows[inode] = row;
    }
  }
  if (node.rows.empty()) nodes_.erase(message.node);
}

void CachedBytes::Forget(NodeId node) {
  MutexLock lock(mutex_);
  nodes_.erase(node);
}

std::optional<CacheReportMessage> CachedBytes::Snapshot(NodeId node) const {
  MutexLock lock(mutex_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return std::nullopt;
  CacheReportMessage message{found->second.campus, node, true, {}};
  message.rows.assign(found->second.rows.begin(), found->second.rows.end());
  return message;
}

std::vector<NodeId> CachedBytes::Nodes() const {
  MutexLock lock(mutex_);
  std::vector<NodeId> ids;
  for (const auto& [id, node] : nodes_) ids.push_back(id);
  return ids;
}

}  // namespace quadfs::fs
