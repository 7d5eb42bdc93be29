#include "cache/block_bitmap.h"

#include <algorithm>

namespace quadfs::cache {
namespace {
// On disk: frozen.
enum class Form : uint8_t { kNone = 0, kAll = 1, kRuns = 2, kPlain = 3 };
}  // namespace

BlockBitmap BlockBitmap::Full(uint64_t size) {
  BlockBitmap map(size);
  std::fill(map.words_.begin(), map.words_.end(), ~uint64_t{0});
  if (size % 64 != 0) map.words_.back() = (uint64_t{1} << (size % 64)) - 1;
  map.count_ = size;
  return map;
}

bool BlockBitmap::Set(uint64_t index) {
  if (index >= size_ || Test(index)) return false;
  words_[index / 64] |= uint64_t{1} << (index % 64);
  ++count_;
  return true;
}

bool BlockBitmap::Clear(uint64_t index) {
  if (!Test(index)) return false;
  words_[index / 64] &= ~(uint64_t{1} << (index % 64));
  --count_;
  return true;
}

void BlockBitmap::Recount() {
  count_ = 0;
  for (const uint64_t word : words_) count_ += static_cast<uint64_t>(std::popcount(word));
}

BlockBitmap& BlockBitmap::operator|=(const BlockBitmap& other) {
  const size_t words = std::min(words_.size(), other.words_.size());
  for (size_t i = 0; i < words; ++i) words_[i] |= other.words_[i];
  Recount();
  return *this;
}

BlockBitmap& BlockBitmap::operator&=(const BlockBitmap& other) {
  for (size_t i = 0; i < words_.size(); ++i) {
    words_[i] &= i < other.words_.size() ? other.words_[i] : 0;
  }
  Recount();
  return *this;
}

BlockBitmap& BlockBitmap::operator-=(const BlockBitmap& other) {
  const size_t words = std::min(words_.size(), other.words_.size());
  for (size_t i = 0; i < words; ++i) words_[i] &= ~other.words_[i];
  Recount();
  return *this;
}

uint64_t BlockBitmap::Next(uint64_t from, bool set) const {
  while (from < size_) {
    uint64_t word = words_[from / 64];
    if (!set) word = ~word;
    word &= ~uint64_t{0} << (from % 64);
    if (word != 0) {
      return std::min(size_, from / 64 * 64 + static_cast<uint64_t>(std::countr_zero(word)));
    }
    from = from / 64 * 64 + 64;
  }
  return size_;
}

void BlockBitmap::Encode(RowWriter& out) const {
  if (count_ == 0) return out.U8(static_cast<uint8_t>(Form::kNone));
  if (All()) return out.U8(static_cast<uint8_t>(Form::kAll));
  const uint64_t plain_bytes = (size_ + 7) / 8;
  RowWriter runs;  // Pairs (gap, length).
  uint64_t run_count = 0;
  uint64_t end = 0;
  for (uint64_t start = Next(0, true); start < size_; start = Next(end, true)) {
    runs.Varint(start - end);
    end = Next(start, false);
    runs.Varint(end - start);
    ++run_count;
    if (runs.bytes().size() > plain_bytes) break;
  }
  if (runs.bytes().size() < plain_bytes) {
    out.U8(static_cast<uint8_t>(Form::kRuns));
    out.Varint(run_count);
    out.Raw(runs.bytes());
    return;
  }
  out.U8(static_cast<uint8_t>(Form::kPlain));
  for (uint64_t i = 0; i < plain_bytes; ++i) {
    out.U8(static_cast<uint8_t>(words_[i / 8] >> (8 * (i % 8))));
  }
}

BlockBitmap BlockBitmap::Decode(RowReader& in, uint64_t size, bool& ok) {
  BlockBitmap map(size);
  const uint8_t form = in.U8();
  if (form == static_cast<uint8_t>(Form::kAll)) {
    map = Full(size);
  } else if (form == static_cast<uint8_t>(Form::kRuns)) {
    uint64_t position = 0;
    for (uint64_t runs = in.Varint(); runs > 0 && in.ok(); --runs) {
      const uint64_t gap = in.Varint();
      const uint64_t length = in.Varint();
      if (gap > size - position || length > size - position - gap) {
        ok = false;
        return map;
      }
      position += gap;
      for (const uint64_t end = position + length; position < end; ++position) map.Set(position);
    }
  } else if (form == static_cast<uint8_t>(Form::kPlain)) {
    for (uint64_t i = 0; i < (size + 7) / 8 && in.ok(); ++i) {
      map.words_[i / 8] |= uint64_t{in.U8()} << (8 * (i % 8));
    }
    if (size % 64 != 0) map.words_.back() &= (uint64_t{1} << (size % 64)) - 1;
    map.Recount();
  } else if (form != static_cast<uint8_t>(Form::kNone)) {
    ok = false;
  }
  ok = ok && in.ok();
  return map;
}

}  // namespace quadfs::cache
