#pragma once

#include <memory>
#include <string>
#include <utility>

#include "cache/block_cache.h"
#include "tests/support/cache_files.h"
#include "tests/support/cache_mem_index.h"
#include "tests/support/matchers.h"

namespace quadfs::cache {

/// A cache in a fresh directory that can be closed, killed and opened again.
class BlockCacheTest : public testing::Test {
 protected:
  using Bytes = test::Bytes;

  BlockCacheTest() {
    options_.directory = directory_.path() + "/cache";
    options_.capacity_bytes = uint64_t{1} << 30;
    options_.free_floor_bytes = 0;
    options_.sync_interval = std::chrono::milliseconds(5);
    options_.boot_id = "boot-1";
  }
  void SetUp() override { Open(); }
  void TearDown() override { cache_.reset(); }
  void Open() {
    auto opened = BlockCache::Open(options_, index_);
    ASSERT_THAT(opened, test::IsOk());
    cache_ = std::move(opened).value();
  }
  void Reopen() {
    cache_.reset();
    Open();
  }

  static ObjectId Id(uint64_t inode, uint64_t generation = 1) {
    return {InodeId(inode), Generation(generation)};
  }
  /// The object of that content, with its manifest set and no block yet.
  ObjectRef Begin(const ObjectId& object, const Bytes& content) {
    Manifest manifest = Manifest::Of(content);
    auto made = cache_->FindOrCreate(object, content.size(), manifest.Root());
    EXPECT_THAT(made, test::IsOk());
    EXPECT_THAT((*made)->SetManifest(std::move(manifest)), test::IsOk());
    return *made;
  }
  static Result<void> Store(const ObjectRef& object, const Bytes& content, uint64_t index) {
    return object->StoreBlock(index, test::BlockOf(content, index));
  }
  ObjectRef Fill(const ObjectId& object, const Bytes& content) {
    ObjectRef made = Begin(object, content);
    for (uint64_t i = 0; i < BlockCount(content.size()); ++i) {
      EXPECT_THAT(Store(made, content, i), test::IsOk());
    }
    EXPECT_TRUE(made->complete());
    return made;
  }
  /// A dirty file with that content.
  ObjectRef Written(uint64_t inode, const Bytes& content, uint64_t base = 0) {
    auto made = cache_->CreateDirty(InodeId(inode), Generation(base));
    EXPECT_THAT(made, test::IsOk());
    EXPECT_EQ(::pwrite((*made)->fd(), content.data(), content.size(), 0),
              static_cast<ssize_t>(content.size()));
    return *made;
  }
  static void Seal(const ObjectRef& object, uint64_t generation, bool still_open = false) {
    auto manifest = object->ComputeManifest();
    ASSERT_THAT(manifest, test::IsOk());
    ASSERT_THAT(object->Seal(Generation(generation), std::move(manifest).value(), still_open),
                test::IsOk());
  }

  test::TempDirectory directory_;
  test::MemIndexStore index_;
  BlockCache::Options options_;
  std::unique_ptr<BlockCache> cache_;
};

}  // namespace quadfs::cache
