#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "cache/manifest.h"
#include "transport/base/unique_fd.h"

namespace quadfs::test {

using Bytes = std::vector<std::byte>;

/// A fresh directory that goes with the object.
class TempDirectory {
 public:
  TempDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "quadfs-cache-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline Bytes RandomBytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = random();
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, size - i));
  }
  return bytes;
}

inline std::span<const std::byte> BlockOf(const Bytes& content, uint64_t index) {
  const size_t offset = index * kBlockBytes;
  return std::span(content).subspan(offset, std::min<size_t>(kBlockBytes, content.size() - offset));
}

inline Bytes ReadWhole(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Bytes content(fd ? std::filesystem::file_size(path) : 0);
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t got =
        ::pread(fd.get(), content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  content.resize(done);
  return content;
}

inline void WriteWhole(const std::string& path, std::span<const std::byte> content) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  ASSERT_TRUE(fd) << path;
  ASSERT_EQ(::pwrite(fd.get(), content.data(), content.size(), 0),
            static_cast<ssize_t>(content.size()));
}

/// Changes one byte in place, as a failing disk or a stray program would.
inline void FlipByte(const std::string& path, uint64_t offset) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(fd) << path;
  char byte = 0;
  ASSERT_EQ(::pread(fd.get(), &byte, 1, static_cast<off_t>(offset)), 1);
  byte = static_cast<char>(byte ^ 0x20);
  ASSERT_EQ(::pwrite(fd.get(), &byte, 1, static_cast<off_t>(offset)), 1);
}

}  // namespace quadfs::test
