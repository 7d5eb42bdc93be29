#pragma once

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cache/manifest.h"

namespace quadfs::test {

using Content = std::vector<std::byte>;

/// `size` bytes that depend on `seed`.
inline Content MakeContent(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Content content(size);
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = random();
    std::memcpy(content.data() + i, &word, std::min<size_t>(8, size - i));
  }
  return content;
}

inline std::span<const std::byte> BlockIn(const Content& content, uint64_t index) {
  const size_t offset = index * kBlockBytes;
  return std::span(content).subspan(offset, std::min<size_t>(kBlockBytes, content.size() - offset));
}

/// A directory that goes with the object.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "quadfs-data-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline Content ReadContent(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Content content(text.size());
  std::memcpy(content.data(), text.data(), text.size());
  return content;
}

}  // namespace quadfs::test
