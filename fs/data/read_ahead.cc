#include "fs/data/read_ahead.h"

#include <algorithm>

namespace quadfs::fs {

/// The stream that this read goes on with: in its last block, the next one, or a small step ahead
/// (the kernel's own read-ahead arrives out of order).
ReadAhead::Stream* ReadAhead::Match(uint64_t first) {
  for (Stream& stream : streams_) {
    if (stream.used == 0) continue;
    const uint64_t slack = std::max<uint64_t>(1, stream.window / 4);
    if (first + 1 + slack > stream.next && first <= stream.next + slack) return &stream;
  }
  return nullptr;
}

ReadAhead::Advice ReadAhead::Note(uint64_t first, uint64_t last) {
  Advice advice;
  if (block_count_ <= 1 || last < first || last >= block_count_) return advice;
  ++clock_;
  Stream* stream = Match(first);
  if (stream == nullptr) {
    stream = &*std::min_element(streams_.begin(), streams_.end(),
                                [](const Stream& a, const Stream& b) { return a.used < b.used; });
    // A file's start is read in sequence more often than not; elsewhere the second read decides.
    *stream = {last + 1, last + 1, first == 0 ? uint64_t{1} : uint64_t{0}, 0, clock_};
  } else {
    const bool moved = last + 1 > stream->next;
    stream->used = clock_;
    if (!moved) return advice;
    stream->run += last + 1 - stream->next;
    stream->next = last + 1;
    stream->window = std::min(max_window_, std::max<uint64_t>(2, stream->window * 2));
  }
  if (stream->window > 0) {
    const uint64_t from = std::max(stream->ahead_end, stream->next);
    const uint64_t upto = std::min(block_count_, stream->next + stream->window);
    // Ask again only when half the window is used up, so that runs stay long.
    if (upto > from && (upto - from) * 2 >= std::min(stream->window, block_count_ - from)) {
      advice.first = from;
      advice.count = upto - from;
      stream->ahead_end = upto;
    }
  }
  if (stream->run >= kCompleteAfterBlocks && !advised_completion_) {
    advised_completion_ = advice.complete = true;
  }
  return advice;
}

}  // namespace quadfs::fs
