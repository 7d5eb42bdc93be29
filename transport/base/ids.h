#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace quadfs {

/// A number that means one thing only. Ordered and hashable; 0 is "none" unless its name says else.
template <typename Tag>
struct StrongId {
  uint64_t value = 0;

  constexpr StrongId() = default;
  constexpr explicit StrongId(uint64_t number) : value(number) {}
  constexpr auto operator<=>(const StrongId&) const = default;
  constexpr explicit operator bool() const { return value != 0; }
  constexpr StrongId Next() const { return StrongId(value + 1); }
};

/// An inode: 16 bits of origin campus, 48 bits of counter. Never reused. The root is 1.
using InodeId = StrongId<struct InodeTag>;
/// Version of one inode's content: 0 has never had content, each publish takes a higher one.
using Generation = StrongId<struct GenerationTag>;
/// Position in one log; the first entry is 1.
using SequenceNumber = StrongId<struct SequenceTag>;
/// Counts owners of a right; a smaller one is fenced off.
using Epoch = StrongId<struct EpochTag>;
/// A campus, numbered by main when it joins; main is 1.
using CampusId = StrongId<struct CampusTag>;
/// A node, numbered by main when it joins, unique in the cluster.
using NodeId = StrongId<struct NodeTag>;

inline constexpr InodeId kRootInode{1};
inline constexpr CampusId kMainCampus{1};

/// One immutable content of one file: the unit that caches, stores and peers hold.
struct ObjectId {
  InodeId inode;
  Generation generation;
  auto operator<=>(const ObjectId&) const = default;
};

/// The unit of fetch, checksum and delta; the last block of a version is shorter.
inline constexpr uint64_t kBlockBytes = uint64_t{1} << 20;

}  // namespace quadfs

template <typename Tag>
struct std::hash<quadfs::StrongId<Tag>> {
  size_t operator()(const quadfs::StrongId<Tag>& id) const noexcept {
    // SplitMix64 finaliser (Steele, Lea, Flood 2014): neighbouring ids spread over all buckets.
    uint64_t x = id.value + 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return static_cast<size_t>(x ^ (x >> 31));
  }
};

template <>
struct std::hash<quadfs::ObjectId> {
  size_t operator()(const quadfs::ObjectId& id) const noexcept {
    return std::hash<quadfs::InodeId>{}(id.inode) * 31 +
           std::hash<quadfs::Generation>{}(id.generation);
  }
};
