#include "metadata/codec.h"

#include <algorithm>
#include <limits>

#include "metadata/proto/log.pb.h"

namespace quadfs::metadata {
namespace {

Error Malformed(std::string_view what) {
  return Error(ErrorCode::kCorruption, std::string(what) + " message is malformed");
}

template <typename Message>
Result<Message> Parse(std::string_view bytes, std::string_view what) {
  Message message;
  if (bytes.size() > kMaxEntryBytes ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Malformed(what);
  }
  return message;
}

// A name may be empty here (fields a kind does not use), not too long.
bool IsShort(const std::string& text, size_t bound) { return text.size() <= bound; }

void ToProto(const RowChange& change, proto::RowChange* message) {
  message->set_key(change.key);
  message->set_present(change.value.has_value());
  if (change.value) message->set_value(*change.value);
}

Result<RowChange> FromProto(proto::RowChange&& message) {
  const auto family = FamilyOf(message.key());
  if (!family || !IsStateFamily(*family) || !IsShort(message.key(), kMaxRowKeyBytes) ||
      !IsShort(message.value(), kMaxRowValueBytes) ||
      (!message.present() && !message.value().empty())) {
    return Malformed("row");
  }
  RowChange change{std::move(*message.mutable_key()), std::nullopt};
  if (message.present()) change.value = std::move(*message.mutable_value());
  return change;
}

void ToProto(const Attributes& attributes, proto::Attributes* message) {
  message->set_inode(attributes.inode.value);
  message->set_row(EncodeInode(attributes));
}

Result<Attributes> FromProto(const proto::Attributes& message) {
  return DecodeInode(InodeId(message.inode()), message.row());
}

void ToProto(const Location& location, proto::Location* message) {
  message->set_campus(location.campus.value);
  message->set_node(location.node.value);
  message->set_generation(location.generation.value);
  message->set_verified(location.verified);
}

void ToProto(const Operation& op, proto::Operation* message) {
  message->set_kind(static_cast<uint32_t>(op.kind));
  auto* credentials = message->mutable_credentials();
  credentials->set_uid(op.credentials.uid);
  credentials->set_gid(op.credentials.gid);
  for (const uint32_t group : op.credentials.groups) credentials->add_groups(group);
  message->set_now_ns(op.now_ns);
  message->set_parent(op.parent.value);
  message->set_name(op.name);
  message->set_inode(op.inode.value);
  message->set_new_parent(op.new_parent.value);
  message->set_new_name(op.new_name);
  message->set_rename_flags(op.rename_flags);
  message->set_type(static_cast<uint32_t>(op.type));
  message->set_mode(op.mode);
  message->set_uid(op.uid);
  message->set_gid(op.gid);
  message->set_rdev(op.rdev);
  message->set_symlink_target(op.symlink_target);
  message->set_set_mask(op.set_mask);
  message->set_atime_ns(op.atime_ns);
  message->set_mtime_ns(op.mtime_ns);
  message->set_xattr_name(op.xattr_name);
  message->set_xattr_value(op.xattr_value);
  message->set_xattr_flags(op.xattr_flags);
  message->set_base(op.base.value);
  message->set_generation(op.generation.value);
  message->set_size(op.size);
  if (op.root) message->set_root(op.root.bytes.data(), op.root.bytes.size());
  if (op.location != Location()) ToProto(op.location, message->mutable_location());
  message->set_location_gone(op.location_gone);
  if (op.kind == OpKind::kMember) {
    auto* member = message->mutable_member();
    member->set_campus(op.member.campus.value);
    member->set_node(op.member.node.value);
    member->set_name(op.member.name);
    for (const std::string& address : op.member.addresses) member->add_addresses(address);
  }
}

Result<void> CheckBounds(const proto::Operation& message) {
  const bool fits =
      message.kind() >= 1 && message.kind() <= static_cast<uint32_t>(OpKind::kMember) &&
      message.type() >= 1 && message.type() <= static_cast<uint32_t>(FileType::kBlockDevice) &&
      static_cast<size_t>(message.credentials().groups_size()) <= kMaxGroups &&
      // One byte more than allowed may arrive, so that the operation itself can refuse it.
      IsShort(message.name(), kMaxRowValueBytes) &&
      IsShort(message.new_name(), kMaxRowValueBytes) &&
      IsShort(message.symlink_target(), kMaxRowValueBytes) &&
      IsShort(message.xattr_name(), kMaxRowValueBytes) &&
      IsShort(message.xattr_value(), kMaxRowValueBytes) &&
      (message.root().empty() || message.root().size() == sizeof(Checksum::bytes)) &&
      static_cast<size_t>(message.member().addresses_size()) <= kMaxMemberAddresses &&
      IsShort(message.member().name(), std::numeric_limits<uint16_t>::max());
  if (!fits) return Malformed("operation");
  return {};
}

Result<Operation> FromProto(proto::Operation&& message) {
  QUADFS_TRY(CheckBounds(message));
  Operation op;
  op.kind = static_cast<OpKind>(message.kind());
  op.credentials.uid = message.credentials().uid();
  op.credentials.gid = message.credentials().gid();
  op.credentials.groups.assign(message.credentials().groups().begin(),
                               message.credentials().groups().end());
  op.now_ns = message.now_ns();
  op.parent = InodeId(message.parent());
  op.name = std::move(*message.mutable_name());
  op.inode = InodeId(message.inode());
  op.new_parent = InodeId(message.new_parent());
  op.new_name = std::move(*message.mutable_new_name());
  op.rename_flags = message.rename_flags();
  op.type = static_cast<FileType>(message.type());
  op.mode = message.mode();
  op.uid = message.uid();
  op.gid = message.gid();
  op.rdev = message.rdev();
  op.symlink_target = std::move(*message.mutable_symlink_target());
  op.set_mask = message.set_mask();
  op.atime_ns = message.atime_ns();
  op.mtime_ns = message.mtime_ns();
  op.xattr_name = std::move(*message.mutable_xattr_name());
  op.xattr_value = std::move(*message.mutable_xattr_value());
  op.xattr_flags = message.xattr_flags();
  op.base = Generation(message.base());
  op.generation = Generation(message.generation());
  op.size = message.size();
  std::transform(message.root().begin(), message.root().end(), op.root.bytes.begin(),
                 [](char byte) { return static_cast<uint8_t>(byte); });
  op.location.campus = CampusId(message.location().campus());
  op.location.node = NodeId(message.location().node());
  op.location.generation = Generation(message.location().generation());
  op.location.verified = message.location().verified();
  op.location_gone = message.location_gone();
  op.member.campus = CampusId(message.member().campus());
  op.member.node = NodeId(message.member().node());
  op.member.name = message.member().name();
  op.member.addresses.assign(message.member().addresses().begin(),
                             message.member().addresses().end());
  return op;
}

}  // namespace

std::string Encode(const RowChange& change) {
  proto::RowChange message;
  ToProto(change, &message);
  return message.SerializeAsString();
}

Result<RowChange> DecodeRowChange(std::string_view bytes) {
  return FromProto(QUADFS_TRY(Parse<proto::RowChange>(bytes, "row")));
}

std::string Encode(const Attributes& attributes) {
  proto::Attributes message;
  ToProto(attributes, &message);
  return message.SerializeAsString();
}

Result<Attributes> DecodeAttributes(std::string_view bytes) {
  return FromProto(QUADFS_TRY(Parse<proto::Attributes>(bytes, "attributes")));
}

std::string Encode(const Operation& operation) {
  proto::Operation message;
  ToProto(operation, &message);
  return message.SerializeAsString();
}

Result<Operation> DecodeOperation(std::string_view bytes) {
  return FromProto(QUADFS_TRY(Parse<proto::Operation>(bytes, "operation")));
}

std::string Encode(const OpResult& result) {
  proto::OpResult message;
  message.set_view(result.view.value);
  ToProto(result.attributes, message.mutable_attributes());
  if (result.replaced) ToProto(*result.replaced, message.mutable_replaced());
  return message.SerializeAsString();
}

Result<OpResult> DecodeOpResult(std::string_view bytes) {
  const auto message = QUADFS_TRY(Parse<proto::OpResult>(bytes, "result"));
  OpResult result;
  result.view = SequenceNumber(message.view());
  if (!message.has_attributes()) return Malformed("result");
  result.attributes = QUADFS_TRY(FromProto(message.attributes()));
  if (message.has_replaced()) result.replaced = QUADFS_TRY(FromProto(message.replaced()));
  return result;
}

std::string Encode(const LogEntry& entry) {
  proto::LogEntry message;
  message.set_sequence(entry.sequence.value);
  message.set_epoch(entry.epoch.value);
  message.set_campus(entry.campus.value);
  message.set_campus_op(entry.campus_op);
  message.set_node(entry.node.value);
  message.set_node_op(entry.node_op);
  message.set_base(entry.base.value);
  message.set_kind(static_cast<uint32_t>(entry.kind));
  message.set_verdict(entry.verdict);
  for (const InodeId directory : entry.directories) message.add_directories(directory.value);
  for (const RowChange& change : entry.rows) ToProto(change, message.add_rows());
  for (const auto& [key, hash] : entry.seen) {
    auto* seen = message.add_seen();
    seen->set_key(key);
    seen->set_hash(hash);
  }
  if (entry.operation) ToProto(*entry.operation, message.mutable_operation());
  return message.SerializeAsString();
}

Result<LogEntry> DecodeLogEntry(std::string_view bytes) {
  auto message = QUADFS_TRY(Parse<proto::LogEntry>(bytes, "log entry"));
  if (message.kind() < 1 || message.kind() > static_cast<uint32_t>(OpKind::kMember) ||
      message.verdict() > 255 || static_cast<size_t>(message.rows_size()) > kMaxEntryRows ||
      static_cast<size_t>(message.seen_size()) > kMaxEntryRows ||
      static_cast<size_t>(message.directories_size()) > kMaxEntryRows) {
    return Malformed("log entry");
  }
  LogEntry entry;
  entry.sequence = SequenceNumber(message.sequence());
  entry.epoch = Epoch(message.epoch());
  entry.campus = CampusId(message.campus());
  entry.campus_op = message.campus_op();
  entry.node = NodeId(message.node());
  entry.node_op = message.node_op();
  entry.base = SequenceNumber(message.base());
  entry.kind = static_cast<OpKind>(message.kind());
  entry.verdict = static_cast<uint8_t>(message.verdict());
  for (const uint64_t directory : message.directories()) entry.directories.emplace_back(directory);
  entry.rows.reserve(static_cast<size_t>(message.rows_size()));
  for (auto& row : *message.mutable_rows()) {
    entry.rows.push_back(QUADFS_TRY(FromProto(std::move(row))));
  }
  for (auto& seen : *message.mutable_seen()) {
    if (!FamilyOf(seen.key()) || !IsShort(seen.key(), kMaxRowKeyBytes)) {
      return Malformed("log entry");
    }
    entry.seen.emplace_back(std::move(*seen.mutable_key()), seen.hash());
  }
  if (message.has_operation()) {
    entry.operation = QUADFS_TRY(FromProto(std::move(*message.mutable_operation())));
  }
  return entry;
}

}  // namespace quadfs::metadata
