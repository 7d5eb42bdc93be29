#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace quadfs::fs {

/// Decides from a program's reads of one file what to fetch ahead. It follows up to four
/// interleaved sequential readers. Pure; does no I/O. Threads: one at a time.
class ReadAhead {
 public:
  struct Advice {
    uint64_t first = 0, count = 0;  ///< Blocks to fetch now; count 0: none.
    bool complete = false;          ///< Said once: fetch the rest of the file in the background.
  };
  /// `max_window`: blocks kept ahead of a reader at most.
  ReadAhead(uint64_t block_count, uint64_t max_window)
      : block_count_(block_count), max_window_(max_window) {}

  /// The program read blocks [first, last].
  Advice Note(uint64_t first, uint64_t last);
  /// The completion it advised was given up: may be advised again.
  void CompletionFailed() { advised_completion_ = false; }

 private:
  static constexpr uint64_t kCompleteAfterBlocks = 8;  ///< Read in sequence.
  struct Stream {
    uint64_t next = 0;       ///< Block after the last one read.
    uint64_t ahead_end = 0;  ///< Fetched or asked for up to here.
    uint64_t window = 0;
    uint64_t run = 0;   ///< Blocks read in sequence.
    uint64_t used = 0;  ///< For LRU; 0: free.
  };
  Stream* Match(uint64_t first);

  const uint64_t block_count_, max_window_;
  std::array<Stream, 4> streams_{};
  uint64_t clock_ = 0;
  bool advised_completion_ = false;
};

}  // namespace quadfs::fs
