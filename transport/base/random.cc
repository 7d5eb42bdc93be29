#include "transport/base/random.h"

#include <sys/random.h>

#include <cstdlib>
#include <vector>

namespace quadfs {
namespace {

void Fill(void* buffer, size_t size) {
  auto* out = static_cast<unsigned char*>(buffer);
  while (size > 0) {
    const ssize_t got = getrandom(out, size, 0);
    if (got <= 0) continue;  // EINTR; the system call has no other failure with valid arguments.
    out += got;
    size -= static_cast<size_t>(got);
  }
}

class SystemRandom final : public Random {
 public:
  uint64_t Next() override {
    uint64_t value = 0;
    Fill(&value, sizeof value);
    return value;
  }
};

}  // namespace

Random& Random::System() {
  static SystemRandom random;
  return random;
}

std::string RandomHex(size_t byte_count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::vector<unsigned char> bytes(byte_count);
  Fill(bytes.data(), bytes.size());
  std::string hex;
  hex.reserve(byte_count * 2);
  for (const unsigned char byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

}  // namespace quadfs
