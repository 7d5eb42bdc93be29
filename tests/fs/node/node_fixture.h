#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/cache_files.h"
#include "tests/support/fs_node_test_mount.h"
#include "tests/support/matchers.h"
#include "transport/base/unique_fd.h"

namespace quadfs::test {

/// One or two nodes of one namespace, mounted.
class NodeMountTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = TestMount::WhyNot(); !why.empty()) GTEST_SKIP() << why;
    cluster_ = std::make_unique<TestCluster>(directory_.path());
    one_ = Make(1);
    ASSERT_THAT(one_->Start(), IsOk());
  }
  void TearDown() override {
    two_.reset();
    one_.reset();
  }
  std::unique_ptr<TestMount> Make(uint64_t node, fs::NodeMount::Options options = {}) {
    options.deadline = std::chrono::milliseconds(500);
    return std::make_unique<TestMount>(*cluster_, directory_.path() + "/" + std::to_string(node),
                                       node, options);
  }
  void StartTwo() {
    two_ = Make(2);
    ASSERT_THAT(two_->Start(), IsOk());
  }

  static UniqueFd Open(const std::string& path, int flags) {
    UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0644));
    EXPECT_TRUE(fd) << path << ": " << std::strerror(errno);
    return fd;
  }
  static void Put(const std::string& path, const std::string& text) {
    const UniqueFd fd = Open(path, O_WRONLY | O_CREAT | O_TRUNC);
    EXPECT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  static std::string Get(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return fd ? ReadAll(fd.get()) : std::string("error ") + std::strerror(errno);
  }
  static std::string ReadAll(int fd) {
    std::string text;
    char buffer[65536];
    for (ssize_t got = 0;
         (got = ::pread(fd, buffer, sizeof(buffer), static_cast<off_t>(text.size()))) > 0;) {
      text.append(buffer, static_cast<size_t>(got));
    }
    return text;
  }
  static struct stat StatOf(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path << ": " << std::strerror(errno);
    return status;
  }
  static std::vector<std::string> NamesIn(const std::string& path) {
    std::vector<std::string> names;
    DIR* const directory = ::opendir(path.c_str());
    if (directory == nullptr) return names;
    while (const dirent* entry = ::readdir(directory)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    ::closedir(directory);
    std::sort(names.begin(), names.end());
    return names;
  }
  /// Waits, at most ten seconds, until it is so.
  static bool Eventually(const std::function<bool()>& so) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!so()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  TempDirectory directory_;
  std::unique_ptr<TestCluster> cluster_;
  std::unique_ptr<TestMount> one_, two_;
};

}  // namespace quadfs::test
