#include <algorithm>

#include "metadata/format.h"
#include "metadata/row_bytes.h"

namespace quadfs::metadata {
namespace {

constexpr uint8_t kVersion = 1;
constexpr uint8_t kHasXattr = 1;  // Flag of an inode row.
constexpr uint8_t kVerified = 1;  // Flag of a location.

RowEncoder NewValue() {
  RowEncoder value;
  value.Byte(kVersion);
  return value;
}

Error Malformed(std::string_view what) {
  return Error(ErrorCode::kCorruption, std::string(what) + " row is malformed");
}

bool IsFileType(uint8_t number) { return number >= 1 && number <= 7; }

}  // namespace

std::string EncodeDentry(const Dentry& dentry) {
  RowEncoder value = NewValue();
  value.Little(dentry.inode.value);
  value.Byte(static_cast<uint8_t>(dentry.type));
  return value.Take();
}

Result<Dentry> DecodeDentry(std::string_view value) {
  RowDecoder decoder(value);
  const uint8_t version = decoder.Byte();
  const InodeId inode(decoder.Little<uint64_t>());
  const uint8_t type = decoder.Byte();
  if (!decoder.AtEnd() || version != kVersion || !inode || !IsFileType(type)) {
    return Malformed("dentry");
  }
  return Dentry{inode, static_cast<FileType>(type)};
}

std::string EncodeInode(const Attributes& a) {
  RowEncoder value = NewValue();
  value.Byte(static_cast<uint8_t>(a.type));
  value.Byte(a.has_xattr ? kHasXattr : 0);
  value.Little(static_cast<uint16_t>(a.mode & 07777));
  value.Little(a.uid);
  value.Little(a.gid);
  value.Little(a.rdev);
  value.Little(a.nlink);
  value.Little(a.size);
  for (const int64_t time : {a.atime_ns, a.mtime_ns, a.ctime_ns, a.birth_ns}) {
    value.Little(static_cast<uint64_t>(time));
  }
  value.Little(a.parent.value);
  value.Little(a.name_hash);
  value.Little(a.generation.value);
  for (const uint8_t byte : a.root.bytes) value.Byte(byte);
  value.Raw(a.symlink_target);
  return value.Take();
}

Result<Attributes> DecodeInode(InodeId inode, std::string_view value) {
  RowDecoder decoder(value);
  Attributes a;
  a.inode = inode;
  const uint8_t version = decoder.Byte();
  const uint8_t type = decoder.Byte();
  const uint8_t flags = decoder.Byte();
  a.type = static_cast<FileType>(type);
  a.has_xattr = (flags & kHasXattr) != 0;
  a.mode = decoder.Little<uint16_t>();
  a.uid = decoder.Little<uint32_t>();
  a.gid = decoder.Little<uint32_t>();
  a.rdev = decoder.Little<uint64_t>();
  a.nlink = decoder.Little<uint32_t>();
  a.size = decoder.Little<uint64_t>();
  for (int64_t* time : {&a.atime_ns, &a.mtime_ns, &a.ctime_ns, &a.birth_ns}) {
    *time = static_cast<int64_t>(decoder.Little<uint64_t>());
  }
  a.parent = InodeId(decoder.Little<uint64_t>());
  a.name_hash = decoder.Little<uint64_t>();
  a.generation = Generation(decoder.Little<uint64_t>());
  const std::string_view root = decoder.Raw(a.root.bytes.size());
  std::transform(root.begin(), root.end(), a.root.bytes.begin(),
                 [](char byte) { return static_cast<uint8_t>(byte); });
  a.symlink_target = decoder.Rest();
  const bool tail_fits = a.type == FileType::kSymlink ? a.symlink_target.size() <= kMaxSymlinkBytes
                                                      : a.symlink_target.empty();
  if (!decoder.ok() || version != kVersion || !IsFileType(type) || (flags & ~kHasXattr) != 0 ||
      a.mode > 07777 || !tail_fits) {
    return Malformed("inode");
  }
  return a;
}

std::string EncodeLink() { return NewValue().Take(); }

std::string EncodeXattr(std::string_view value) {
  RowEncoder row = NewValue();
  row.Raw(value);
  return row.Take();
}

Result<std::string> DecodeXattr(std::string_view value) {
  if (value.empty() || value.front() != kVersion || value.size() > kMaxXattrValueBytes + 1) {
    return Malformed("xattr");
  }
  return std::string(value.substr(1));
}

std::string EncodeLocations(const std::vector<Location>& locations) {
  RowEncoder value = NewValue();
  const size_t count = std::min(locations.size(), kMaxLocations);
  value.Little(static_cast<uint16_t>(count));
  for (size_t i = 0; i < count; ++i) {
    value.Little(static_cast<uint16_t>(locations[i].campus.value));
    value.Little(locations[i].node.value);
    value.Little(locations[i].generation.value);
    value.Byte(locations[i].verified ? kVerified : 0);
  }
  return value.Take();
}

Result<std::vector<Location>> DecodeLocations(std::string_view value) {
  RowDecoder decoder(value);
  const uint8_t version = decoder.Byte();
  const uint16_t count = decoder.Little<uint16_t>();
  if (!decoder.ok() || version != kVersion || count > kMaxLocations) return Malformed("location");
  std::vector<Location> locations;
  for (uint16_t i = 0; i < count && decoder.ok(); ++i) {
    Location location;
    location.campus = CampusId(decoder.Little<uint16_t>());
    location.node = NodeId(decoder.Little<uint64_t>());
    location.generation = Generation(decoder.Little<uint64_t>());
    const uint8_t flags = decoder.Byte();
    if (flags > kVerified) return Malformed("location");
    location.verified = flags == kVerified;
    locations.push_back(location);
  }
  if (!decoder.AtEnd()) return Malformed("location");
  return locations;
}

std::string EncodeTotals(const Totals& totals) {
  RowEncoder value = NewValue();
  value.Little(totals.files);
  value.Little(totals.directories);
  value.Little(totals.bytes);
  value.Little(totals.conflicts);
  value.Little(static_cast<uint16_t>(totals.campus_bytes.size()));
  for (const auto& [campus, bytes] : totals.campus_bytes) {
    value.Little(static_cast<uint16_t>(campus.value));
    value.Little(bytes);
  }
  return value.Take();
}

Result<Totals> DecodeTotals(std::string_view value) {
  RowDecoder decoder(value);
  Totals totals;
  const uint8_t version = decoder.Byte();
  totals.files = decoder.Little<uint64_t>();
  totals.directories = decoder.Little<uint64_t>();
  totals.bytes = decoder.Little<uint64_t>();
  totals.conflicts = decoder.Little<uint64_t>();
  const uint16_t count = decoder.Little<uint16_t>();
  for (uint16_t i = 0; i < count && decoder.ok(); ++i) {
    const CampusId campus(decoder.Little<uint16_t>());
    const uint64_t bytes = decoder.Little<uint64_t>();
    if (!totals.campus_bytes.emplace(campus, bytes).second) return Malformed("total");
  }
  if (!decoder.AtEnd() || version != kVersion) return Malformed("total");
  return totals;
}

std::string EncodeLease(const Lease& lease) {
  RowEncoder value = NewValue();
  value.Little(static_cast<uint16_t>(lease.campus.value));
  value.Little(lease.epoch.value);
  value.Little(static_cast<uint64_t>(lease.shared_until));
  return value.Take();
}

Result<Lease> DecodeLease(std::string_view value) {
  RowDecoder decoder(value);
  const uint8_t version = decoder.Byte();
  Lease lease;
  lease.campus = CampusId(decoder.Little<uint16_t>());
  lease.epoch = Epoch(decoder.Little<uint64_t>());
  lease.shared_until = static_cast<int64_t>(decoder.Little<uint64_t>());
  if (!decoder.AtEnd() || version != kVersion) return Malformed("lease");
  return lease;
}

std::string EncodeTomb(const Tomb& tomb) {
  RowEncoder value = NewValue();
  value.Text(EncodeInode(tomb.attributes));
  value.Little(tomb.parent.value);
  value.Text(tomb.name);
  value.Little(static_cast<uint64_t>(tomb.removed_ns));
  return value.Take();
}

Result<Tomb> DecodeTomb(InodeId inode, std::string_view value) {
  RowDecoder decoder(value);
  const uint8_t version = decoder.Byte();
  const std::string_view row = decoder.Text();
  Tomb tomb;
  tomb.parent = InodeId(decoder.Little<uint64_t>());
  tomb.name = decoder.Text();
  tomb.removed_ns = static_cast<int64_t>(decoder.Little<uint64_t>());
  if (!decoder.AtEnd() || version != kVersion || tomb.name.size() > kMaxNameBytes) {
    return Malformed("tomb");
  }
  tomb.attributes = QUADFS_TRY(DecodeInode(inode, row));
  return tomb;
}

std::string EncodeInodeId(InodeId inode) {
  RowEncoder value = NewValue();
  value.Little(inode.value);
  return value.Take();
}

Result<InodeId> DecodeInodeId(std::string_view value) {
  RowDecoder decoder(value);
  const uint8_t version = decoder.Byte();
  const InodeId inode(decoder.Little<uint64_t>());
  if (!decoder.AtEnd() || version != kVersion || !inode) return Malformed("alias or fork");
  return inode;
}

std::string EncodePlace(InodeId parent, std::string_view name) {
  RowEncoder value = NewValue();
  value.Little(parent.value);
  value.Text(name);
  return value.Take();
}

Result<std::pair<InodeId, std::string>> DecodePlace(std::string_view value) {
  RowDecoder decoder(value);
  const uint8_t version = decoder.Byte();
  const InodeId parent(decoder.Little<uint64_t>());
  std::string name(decoder.Text());
  if (!decoder.AtEnd() || version != kVersion || name.empty() || name.size() > kMaxNameBytes) {
    return Malformed("want");
  }
  return std::pair(parent, std::move(name));
}

std::string EncodeMember(const Member& member) {
  RowEncoder value = NewValue();
  value.Text(member.name);
  const size_t count = std::min(member.addresses.size(), kMaxMemberAddresses);
  value.Little(static_cast<uint16_t>(count));
  for (size_t i = 0; i < count; ++i) value.Text(member.addresses[i]);
  return value.Take();
}

Result<Member> DecodeMember(CampusId campus, NodeId node, std::string_view value) {
  RowDecoder decoder(value);
  const uint8_t version = decoder.Byte();
  Member member;
  member.campus = campus;
  member.node = node;
  member.name = decoder.Text();
  const uint16_t count = decoder.Little<uint16_t>();
  if (count > kMaxMemberAddresses) return Malformed("member");
  for (uint16_t i = 0; i < count && decoder.ok(); ++i)
    member.addresses.emplace_back(decoder.Text());
  if (!decoder.AtEnd() || version != kVersion) return Malformed("member");
  return member;
}

}  // namespace quadfs::metadata
