#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metadata/types.h"
#include "transport/base/result.h"

namespace quadfs::metadata {

/// Version of everything below. A database of a higher one is refused.
inline constexpr uint32_t kFormatVersion = 1;

/// What a row is about; the first byte of its key. The numbers are stored and travel: frozen.
///
/// | family   | key after the family byte        | value (each starts with a version byte) |
/// |----------|----------------------------------|-------------------------------------------------|
/// | dentry   | parent 8, name                   | inode 8, type 1 | | inode    | inode 8 | fixed
/// part of Attributes, symlink target as tail| | links    | inode 8, parent 8, name          |
/// nothing: every name of every inode              | | xattr    | inode 8, name | the value | |
/// location | inode 8                          | list of Location                                |
/// | total    | directory 8                      | Totals; derived, never shipped in entries | |
/// lease    | directory 8                      | Lease                                           |
/// | tomb     | inode 8                          | Tomb | | alias    | merged directory 8 |
/// survivor 8                                      | | fork     | inode 8, generation 8 | inode 8
/// that carries that version now           | | want     | inode 8, parent 8, name wanted   | parent
/// 8, name it got instead                   | | member   | campus 8, node 8                 | name,
/// addresses                                 |
///
/// Integers in keys are big-endian, in values little-endian.
enum class Family : uint8_t {
  kDentry = 1,
  kInode = 2,
  kLinks = 3,
  kXattr = 4,
  kLocation = 5,
  kTotal = 6,
  kLease = 7,
  kTomb = 8,
  kAlias = 9,
  kFork = 10,
  kWant = 11,
  kMember = 12,
  // The engine's own; never part of the replicated state.
  kLog = 32,
  kView = 33,
  kPending = 34,
  kShadow = 35,
  kOrigin = 36,
  kMeta = 37,
};

inline constexpr Family kAllFamilies[] = {
    Family::kDentry, Family::kInode,  Family::kLinks, Family::kXattr, Family::kLocation,
    Family::kTotal,  Family::kLease,  Family::kTomb,  Family::kAlias, Family::kFork,
    Family::kWant,   Family::kMember, Family::kLog,   Family::kView,  Family::kPending,
    Family::kShadow, Family::kOrigin, Family::kMeta};

/// Name of its column family, such as "dentry"; "unknown" for a number that is none.
std::string_view FamilyName(Family family);
/// True for the families that make up the replicated state, incl. the derived totals.
bool IsStateFamily(Family family);

/// Family byte + key bytes: one string names a row anywhere (effects, shadow, wire).
using RowKey = std::string;

/// A row gets a value, or goes.
struct RowChange {
  RowKey key;
  std::optional<std::string> value;  ///< Nothing: the row is erased.
  bool operator==(const RowChange&) const = default;
};

/// Family of a key; nothing if it is empty or its first byte names none.
std::optional<Family> FamilyOf(std::string_view key);
/// The prefix that every key of the family has.
RowKey FamilyPrefix(Family family);
/// First key after all keys with this prefix; empty if there is none.
RowKey AfterPrefix(std::string_view prefix);

RowKey DentryKey(InodeId parent, std::string_view name);
RowKey DentryPrefix(InodeId parent);
RowKey InodeKey(InodeId inode);
RowKey LinkKey(InodeId inode, InodeId parent, std::string_view name);
RowKey LinkPrefix(InodeId inode);
RowKey LinkPrefix(InodeId inode, InodeId parent);
RowKey XattrKey(InodeId inode, std::string_view name);
RowKey XattrPrefix(InodeId inode);
RowKey LocationKey(InodeId inode);
RowKey TotalKey(InodeId directory);
RowKey LeaseKey(InodeId directory);
RowKey TombKey(InodeId inode);
RowKey AliasKey(InodeId directory);
RowKey ForkKey(InodeId inode, Generation generation);
RowKey WantKey(InodeId inode, InodeId parent, std::string_view name);
RowKey WantPrefix(InodeId inode);
RowKey MemberKey(CampusId campus, NodeId node);
/// kLog, kView, kPending: a number in key order. kOrigin, kMeta: see the engine.
RowKey SequenceKey(Family family, uint64_t number);
RowKey MetaKey(std::string_view name);

/// The parts of a key. Parsers give nothing for a key of another family or shape.
struct NameKey {
  InodeId inode;   ///< links, xattr, want; 0 for a dentry.
  InodeId parent;  ///< dentry, links, want.
  std::string_view name;
};
std::optional<NameKey> ParseDentryKey(std::string_view key);
std::optional<NameKey> ParseLinkKey(std::string_view key);
std::optional<NameKey> ParseXattrKey(std::string_view key);
std::optional<NameKey> ParseWantKey(std::string_view key);
/// The number of a key that is one (inode, location, total, lease, tomb, alias, sequence keys).
std::optional<uint64_t> ParseNumberKey(std::string_view key);
std::optional<std::pair<CampusId, NodeId>> ParseMemberKey(std::string_view key);

/// Value of a dentry.
struct Dentry {
  InodeId inode;
  FileType type = FileType::kRegular;
  bool operator==(const Dentry&) const = default;
};

/// Value of a lease row.
struct Lease {
  CampusId campus;  ///< 0: nobody's, or shared.
  Epoch epoch;
  int64_t shared_until = 0;  ///< While shared (all operations at main): main's wall ns; else 0.
  bool operator==(const Lease&) const = default;
};

/// What is remembered of a removed inode. Its xattr and location rows stay as long as it does.
struct Tomb {
  Attributes attributes;  ///< As when the last name went, but nlink 0.
  InodeId parent;         ///< The last name.
  std::string name;
  int64_t removed_ns = 0;
  bool operator==(const Tomb&) const = default;
};

// Values. Decoders refuse anything malformed with kCorruption.
std::string EncodeDentry(const Dentry& dentry);
Result<Dentry> DecodeDentry(std::string_view value);
std::string EncodeInode(const Attributes& attributes);
Result<Attributes> DecodeInode(InodeId inode, std::string_view value);
std::string EncodeLink();
std::string EncodeXattr(std::string_view value);
Result<std::string> DecodeXattr(std::string_view value);
std::string EncodeLocations(const std::vector<Location>& locations);
Result<std::vector<Location>> DecodeLocations(std::string_view value);
std::string EncodeTotals(const Totals& totals);
Result<Totals> DecodeTotals(std::string_view value);
std::string EncodeLease(const Lease& lease);
Result<Lease> DecodeLease(std::string_view value);
std::string EncodeTomb(const Tomb& tomb);
Result<Tomb> DecodeTomb(InodeId inode, std::string_view value);
/// alias and fork.
std::string EncodeInodeId(InodeId inode);
Result<InodeId> DecodeInodeId(std::string_view value);
/// want.
std::string EncodePlace(InodeId parent, std::string_view name);
Result<std::pair<InodeId, std::string>> DecodePlace(std::string_view value);
std::string EncodeMember(const Member& member);
Result<Member> DecodeMember(CampusId campus, NodeId node, std::string_view value);

/// Bounds that decoders and operations keep.
inline constexpr size_t kMaxLocations = 1024;  ///< Entries in one location row.
inline constexpr size_t kMaxMemberAddresses = 64;
inline constexpr size_t kMaxRowKeyBytes = 1 + 8 + 8 + kMaxNameBytes;
inline constexpr size_t kMaxRowValueBytes = size_t{1} << 20;

/// XXH3-64 of a row's value as `seen` states it; 0 stands for "no such row" only.
uint64_t RowHash(const std::optional<std::string>& value);
/// XXH3-64 of a name, as Attributes::name_hash has it; never 0.
uint64_t NameHash(std::string_view name);

/// Inode number of the conflict copy that a merge makes of operation `campus_op` of `campus`:
/// origins from 0x8000 on are used for nothing else, so it needs no reservation.
InodeId ConflictInode(CampusId campus, uint64_t campus_op);
/// True for names of the form `x.conflict-<campus>-<number>`, with more `.<number>` behind.
bool IsConflictName(std::string_view name);

}  // namespace quadfs::metadata
