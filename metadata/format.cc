#include "metadata/format.h"

#include <xxhash.h>

#include <algorithm>

#include "metadata/row_bytes.h"

namespace quadfs::metadata {
namespace {

RowEncoder KeyOf(Family family) {
  RowEncoder key;
  key.Byte(static_cast<uint8_t>(family));
  return key;
}

RowKey NumberKey(Family family, uint64_t number) {
  RowEncoder key = KeyOf(family);
  key.Big64(number);
  return key.Take();
}

// The parts behind the family byte: `numbers` big-endian integers, then a name.
std::optional<NameKey> ParseNamed(Family family, std::string_view key, int numbers) {
  RowDecoder decoder(key);
  NameKey parts;
  if (decoder.Byte() != static_cast<uint8_t>(family)) return std::nullopt;
  if (family != Family::kDentry) parts.inode = InodeId(decoder.Big64());
  if (family == Family::kDentry || numbers == 2) parts.parent = InodeId(decoder.Big64());
  parts.name = decoder.Rest();
  if (!decoder.ok() || parts.name.empty() || parts.name.size() > kMaxNameBytes) {
    return std::nullopt;
  }
  return parts;
}

}  // namespace

std::string_view FamilyName(Family family) {
  switch (family) {
    case Family::kDentry: return "dentry";
    case Family::kInode: return "inode";
    case Family::kLinks: return "links";
    case Family::kXattr: return "xattr";
    case Family::kLocation: return "location";
    case Family::kTotal: return "total";
    case Family::kLease: return "lease";
    case Family::kTomb: return "tomb";
    case Family::kAlias: return "alias";
    case Family::kFork: return "fork";
    case Family::kWant: return "want";
    case Family::kMember: return "member";
    case Family::kLog: return "log";
    case Family::kView: return "view";
    case Family::kPending: return "pending";
    case Family::kShadow: return "shadow";
    case Family::kOrigin: return "origin";
    case Family::kMeta: return "meta";
  }
  return "unknown";
}

bool IsStateFamily(Family family) { return family >= Family::kDentry && family <= Family::kMember; }

std::optional<Family> FamilyOf(std::string_view key) {
  if (key.empty()) return std::nullopt;
  const auto family = static_cast<Family>(static_cast<uint8_t>(key.front()));
  if (FamilyName(family) == "unknown") return std::nullopt;
  return family;
}

RowKey FamilyPrefix(Family family) { return KeyOf(family).Take(); }

RowKey AfterPrefix(std::string_view prefix) {
  RowKey after(prefix);
  while (!after.empty()) {
    const auto last = static_cast<uint8_t>(after.back());
    if (last != 0xFF) {
      after.back() = static_cast<char>(last + 1);
      break;
    }
    after.pop_back();
  }
  return after;
}

RowKey DentryPrefix(InodeId parent) { return NumberKey(Family::kDentry, parent.value); }
RowKey DentryKey(InodeId parent, std::string_view name) {
  return DentryPrefix(parent).append(name);
}
RowKey InodeKey(InodeId inode) { return NumberKey(Family::kInode, inode.value); }
RowKey LinkPrefix(InodeId inode) { return NumberKey(Family::kLinks, inode.value); }
RowKey LinkPrefix(InodeId inode, InodeId parent) {
  RowEncoder key = KeyOf(Family::kLinks);
  key.Big64(inode.value);
  key.Big64(parent.value);
  return key.Take();
}
RowKey LinkKey(InodeId inode, InodeId parent, std::string_view name) {
  return LinkPrefix(inode, parent).append(name);
}
RowKey XattrPrefix(InodeId inode) { return NumberKey(Family::kXattr, inode.value); }
RowKey XattrKey(InodeId inode, std::string_view name) { return XattrPrefix(inode).append(name); }
RowKey LocationKey(InodeId inode) { return NumberKey(Family::kLocation, inode.value); }
RowKey TotalKey(InodeId directory) { return NumberKey(Family::kTotal, directory.value); }
RowKey LeaseKey(InodeId directory) { return NumberKey(Family::kLease, directory.value); }
RowKey TombKey(InodeId inode) { return NumberKey(Family::kTomb, inode.value); }
RowKey AliasKey(InodeId directory) { return NumberKey(Family::kAlias, directory.value); }
RowKey ForkKey(InodeId inode, Generation generation) {
  RowEncoder key = KeyOf(Family::kFork);
  key.Big64(inode.value);
  key.Big64(generation.value);
  return key.Take();
}
RowKey WantPrefix(InodeId inode) { return NumberKey(Family::kWant, inode.value); }
RowKey WantKey(InodeId inode, InodeId parent, std::string_view name) {
  RowEncoder key = KeyOf(Family::kWant);
  key.Big64(inode.value);
  key.Big64(parent.value);
  key.Raw(name);
  return key.Take();
}
RowKey MemberKey(CampusId campus, NodeId node) {
  RowEncoder key = KeyOf(Family::kMember);
  key.Big64(campus.value);
  key.Big64(node.value);
  return key.Take();
}
RowKey SequenceKey(Family family, uint64_t number) { return NumberKey(family, number); }
RowKey MetaKey(std::string_view name) { return FamilyPrefix(Family::kMeta).append(name); }

std::optional<NameKey> ParseDentryKey(std::string_view key) {
  return ParseNamed(Family::kDentry, key, 1);
}
std::optional<NameKey> ParseLinkKey(std::string_view key) {
  return ParseNamed(Family::kLinks, key, 2);
}
std::optional<NameKey> ParseXattrKey(std::string_view key) {
  return ParseNamed(Family::kXattr, key, 1);
}
std::optional<NameKey> ParseWantKey(std::string_view key) {
  return ParseNamed(Family::kWant, key, 2);
}

std::optional<uint64_t> ParseNumberKey(std::string_view key) {
  if (key.size() != 9) return std::nullopt;
  return RowDecoder(key.substr(1)).Big64();
}

std::optional<std::pair<CampusId, NodeId>> ParseMemberKey(std::string_view key) {
  RowDecoder decoder(key);
  if (decoder.Byte() != static_cast<uint8_t>(Family::kMember)) return std::nullopt;
  const CampusId campus(decoder.Big64());
  const NodeId node(decoder.Big64());
  if (!decoder.AtEnd()) return std::nullopt;
  return std::pair(campus, node);
}

uint64_t RowHash(const std::optional<std::string>& value) {
  if (!value) return 0;
  const uint64_t hash = XXH3_64bits(value->data(), value->size());
  return hash == 0 ? 1 : hash;
}

uint64_t NameHash(std::string_view name) {
  const uint64_t hash = XXH3_64bits(name.data(), name.size());
  return hash == 0 ? 1 : hash;
}

InodeId ConflictInode(CampusId campus, uint64_t campus_op) {
  return InodeId(((0x8000 + (campus.value & 0x7FFF)) << 48) |
                 (campus_op & ((uint64_t{1} << 48) - 1)));
}

bool IsConflictName(std::string_view name) {
  constexpr std::string_view kMark = ".conflict-";
  const size_t mark = name.rfind(kMark);
  if (mark == std::string_view::npos) return false;
  std::string_view rest = name.substr(mark + kMark.size());
  const auto take_digits = [&rest] {
    const size_t count = std::min(rest.find_first_not_of("0123456789"), rest.size());
    rest.remove_prefix(count);
    return count > 0;
  };
  if (!take_digits() || rest.empty() || rest.front() != '-') return false;
  rest.remove_prefix(1);
  if (!take_digits()) return false;
  while (!rest.empty()) {
    if (rest.front() != '.') return false;
    rest.remove_prefix(1);
    if (!take_digits()) return false;
  }
  return true;
}

}  // namespace quadfs::metadata
