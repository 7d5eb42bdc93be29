#include "fs/hub/store_records.h"

namespace quadfs::fs {
namespace {

constexpr char kFamily[] = "hub";
constexpr char kVersion = 1;
constexpr size_t kFixedBytes = 38;
constexpr int kMaxDepth = 4096;

void Append(std::string& out, uint64_t number, int bytes) {
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>((number >> shift) & 0xFF));
  }
}

uint64_t Read(std::string_view bytes) {
  uint64_t number = 0;
  for (const char byte : bytes) number = (number << 8) | static_cast<unsigned char>(byte);
  return number;
}

std::string EntryKey(InodeId inode) {
  std::string key = "e";
  Append(key, inode.value, 8);
  return key;
}

std::string NameKey(InodeId parent, std::string_view name) {
  std::string key = "n";
  Append(key, parent.value, 8);
  key += name;
  return key;
}

std::string Encode(const StoreRecord& record) {
  std::string value(1, kVersion);
  Append(value, record.directory ? 2 : 1, 1);
  Append(value, record.parent.value, 8);
  Append(value, record.generation.value, 8);
  Append(value, record.mode, 4);
  Append(value, record.uid, 4);
  Append(value, record.gid, 4);
  Append(value, static_cast<uint64_t>(record.mtime_ns), 8);
  value += record.name;
  return value;
}

std::optional<StoreRecord> Decode(std::string_view value) {
  if (value.size() <= kFixedBytes || value[0] != kVersion) return std::nullopt;
  StoreRecord record;
  record.directory = value[1] == 2;
  record.parent = InodeId(Read(value.substr(2, 8)));
  record.generation = Generation(Read(value.substr(10, 8)));
  record.mode = static_cast<uint32_t>(Read(value.substr(18, 4)));
  record.uid = static_cast<uint32_t>(Read(value.substr(22, 4)));
  record.gid = static_cast<uint32_t>(Read(value.substr(26, 4)));
  record.mtime_ns = static_cast<int64_t>(Read(value.substr(30, 8)));
  record.name = value.substr(kFixedBytes);
  return record;
}

}  // namespace

Result<std::optional<StoreRecord>> StoreRecords::Find(InodeId inode) const {
  const auto value = local_.Get(kFamily, EntryKey(inode));
  if (!value.ok()) {
    if (value.error().code() == ErrorCode::kNotFound) return std::optional<StoreRecord>();
    return value.error();
  }
  auto record = Decode(*value);
  if (!record) return Error(ErrorCode::kCorruption, "a record of the store cannot be read");
  return record;
}

Result<std::optional<InodeId>> StoreRecords::At(InodeId parent, const std::string& name) const {
  const auto value = local_.Get(kFamily, NameKey(parent, name));
  if (!value.ok()) {
    if (value.error().code() == ErrorCode::kNotFound) return std::optional<InodeId>();
    return value.error();
  }
  return std::optional<InodeId>(InodeId(Read(*value)));
}

Result<void> StoreRecords::Put(InodeId inode, const StoreRecord& record) {
  metadata::LocalStore::Batch batch;
  if (const auto before = QUADFS_TRY(Find(inode));
      before && (before->parent != record.parent || before->name != record.name)) {
    const auto standing = QUADFS_TRY(At(before->parent, before->name));
    if (standing == inode) batch.Erase(kFamily, NameKey(before->parent, before->name));
  }
  std::string number;
  Append(number, inode.value, 8);
  batch.Put(kFamily, EntryKey(inode), Encode(record));
  batch.Put(kFamily, NameKey(record.parent, record.name), number);
  return local_.Write(batch);
}

Result<void> StoreRecords::Erase(InodeId inode) {
  const auto before = QUADFS_TRY(Find(inode));
  if (!before) return {};
  metadata::LocalStore::Batch batch;
  batch.Erase(kFamily, EntryKey(inode));
  const auto standing = QUADFS_TRY(At(before->parent, before->name));
  if (standing == inode) batch.Erase(kFamily, NameKey(before->parent, before->name));
  return local_.Write(batch);
}

Result<std::vector<InodeId>> StoreRecords::Children(InodeId parent) const {
  std::vector<InodeId> children;
  QUADFS_TRY(
      local_.Scan(kFamily, NameKey(parent, ""), "", [&](std::string_view, std::string_view value) {
        children.emplace_back(Read(value));
        return true;
      }));
  return children;
}

Result<void> StoreRecords::ForEach(
    const std::function<bool(InodeId, const StoreRecord&)>& row) const {
  return local_.Scan(kFamily, "e", "", [&](std::string_view key, std::string_view value) {
    const auto record = Decode(value);
    return key.size() != 9 || !record || row(InodeId(Read(key.substr(1))), *record);
  });
}

Result<std::optional<std::string>> StoreRecords::PathOf(InodeId inode) const {
  std::string path;
  for (int depth = 0; inode != kRootInode; ++depth) {
    if (depth == kMaxDepth) {
      return Error(ErrorCode::kCorruption, "the store's records form a loop");
    }
    const auto record = QUADFS_TRY(Find(inode));
    if (!record) return std::optional<std::string>();
    path = path.empty() ? record->name : record->name + "/" + path;
    inode = record->parent;
  }
  return std::optional<std::string>(std::move(path));
}

}  // namespace quadfs::fs
