#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "cache/row_codec.h"

namespace quadfs::cache {

/// Which blocks of one object are present. Threads: like any value.
class BlockBitmap {
 public:
  BlockBitmap() = default;
  explicit BlockBitmap(uint64_t size) : size_(size), words_((size + 63) / 64) {}
  static BlockBitmap Full(uint64_t size);

  uint64_t size() const { return size_; }
  uint64_t count() const { return count_; }
  bool All() const { return count_ == size_; }
  bool Test(uint64_t index) const {
    return index < size_ && ((words_[index / 64] >> (index % 64)) & 1U) != 0;
  }
  /// Return whether anything changed.
  bool Set(uint64_t index);
  bool Clear(uint64_t index);

  BlockBitmap& operator|=(const BlockBitmap& other);
  BlockBitmap& operator&=(const BlockBitmap& other);
  /// Clears what `other` has.
  BlockBitmap& operator-=(const BlockBitmap& other);
  bool operator==(const BlockBitmap&) const = default;

  /// First set (or clear) index at or after `from`; size() if none.
  uint64_t Next(uint64_t from, bool set) const;

  /// Writes the shortest of: none, all, runs, plain bits. The size is not written.
  void Encode(RowWriter& out) const;
  static BlockBitmap Decode(RowReader& in, uint64_t size, bool& ok);

 private:
  void Recount();
  uint64_t size_ = 0;
  uint64_t count_ = 0;
  std::vector<uint64_t> words_;
};

}  // namespace quadfs::cache
