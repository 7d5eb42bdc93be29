#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace quadfs {

/// Random numbers behind a seam. Threads: implementations are thread-safe.
class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t Next() = 0;
  /// Uniform in [0, bound); `bound` at least 1.
  uint64_t Below(uint64_t bound) { return Next() % bound; }

  /// The kernel's generator; fit for keys.
  static Random& System();
};

/// `byte_count` bytes of the kernel's generator as lower-case hexadecimal (two digits a byte).
std::string RandomHex(size_t byte_count);

}  // namespace quadfs
