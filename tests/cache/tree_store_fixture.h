#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>

#include "cache/tree_store.h"
#include "tests/support/cache_files.h"
#include "tests/support/cache_mem_index.h"
#include "tests/support/matchers.h"

namespace quadfs::cache {

/// A store in a fresh directory that can be opened again.
class TreeStoreTest : public testing::Test {
 protected:
  using Bytes = test::Bytes;

  TreeStoreTest() : root_(directory_.path() + "/store") {
    std::filesystem::create_directory(root_);
  }
  void SetUp() override { Open(); }
  void Open() {
    auto opened = TreeStore::Open(root_, index_);
    ASSERT_THAT(opened, test::IsOk());
    store_ = std::move(opened).value();
  }
  void Reopen() {
    store_.reset();
    Open();
  }

  static ObjectId Id(uint64_t inode, uint64_t generation = 1) {
    return {InodeId(inode), Generation(generation)};
  }
  static Placement At(const std::string& path) {
    return {.path = path,
            .mode = 0640,
            .uid = ::getuid(),
            .gid = ::getgid(),
            .mtime_ns = 1'600'000'000'123'456'789};
  }
  std::shared_ptr<Incoming> Begin(const ObjectId& object, const Bytes& content) {
    auto incoming = store_->Begin(object, Manifest::Of(content));
    EXPECT_THAT(incoming, test::IsOk());
    return *incoming;
  }
  static void Send(Incoming& incoming, const Bytes& content) {
    for (const uint64_t i : incoming.Missing(10'000)) {
      ASSERT_THAT(incoming.WriteBlock(i, test::BlockOf(content, i)), test::IsOk());
    }
  }
  void Put(const ObjectId& object, const Bytes& content, const std::string& path) {
    const auto incoming = Begin(object, content);
    Send(*incoming, content);
    ASSERT_THAT(incoming->Commit(At(path)), test::IsOk());
  }
  std::string Path(const std::string& path) const { return root_ + "/" + path; }
  bool Exists(const std::string& path) const {
    return std::filesystem::exists(std::filesystem::symlink_status(Path(path)));
  }
  Bytes Content(const std::string& path) const { return test::ReadWhole(Path(path)); }
  size_t TrashCount(const std::string& prefix = "") const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(Path(".quadfs/trash"))) {
      count += entry.path().filename().string().starts_with(prefix) ? 1 : 0;
    }
    return count;
  }

  test::TempDirectory directory_;
  const std::string root_;
  test::MemIndexStore index_;
  std::unique_ptr<TreeStore> store_;
};

}  // namespace quadfs::cache
