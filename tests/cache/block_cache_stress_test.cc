// Many threads at once, and a disk that really is full.
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/cache/block_cache_fixture.h"

namespace quadfs::cache {
namespace {

using test::BlockOf;
using test::IsError;
using test::IsOk;
using test::RandomBytes;

constexpr size_t kMiB = kBlockBytes;

// Threads fill, read, evict, pin and rewrite the same few objects in a cache too small for them. No
// wrong byte is ever read, and afterwards the sums are right.
TEST_F(BlockCacheTest, ManyThreadsNeverReadAWrongByte) {
  cache_.reset();
  options_.capacity_bytes = 6 * kMiB;
  options_.sync_interval = std::chrono::milliseconds(1);
  Open();
  constexpr uint64_t kObjects = 8;
  std::vector<Bytes> content;
  std::vector<Manifest> manifests;
  for (uint64_t i = 0; i < kObjects; ++i) {
    content.push_back(RandomBytes(kMiB + 1000 * i, i));
    manifests.push_back(Manifest::Of(content.back()));
  }
  std::atomic<int> wrong{0};
  std::atomic<int> reads{0};
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(t);
        for (int step = 0; step < 300; ++step) {
          const uint64_t i = random() % kObjects;
          const ObjectId id = Id(i + 1);
          if (random() % 16 == 0) {
            static_cast<void>(cache_->Evict(id));
            continue;
          }
          if (random() % 16 == 0) static_cast<void>(cache_->SetPinned(id, random() % 2 == 0));
          if (random() % 16 == 0) {
            if (const auto object = cache_->Find(id); object.ok()) (*object)->Discard();
          }
          const auto made = cache_->FindOrCreate(id, content[i].size(), manifests[i].Root());
          if (!made.ok()) {
            ++wrong;
            continue;
          }
          const ObjectRef object = *made;
          if (!object->SetManifest(manifests[i]).ok()) ++wrong;
          for (uint64_t b = 0; b < manifests[i].block_count(); ++b) {
            const auto stored = object->StoreBlock(b, BlockOf(content[i], b));
            if (!stored.ok() && stored.error().code() != ErrorCode::kNoSpace) ++wrong;
            const auto block = object->ReadBlock(b);
            if (block.ok()) {
              ++reads;
              if (!std::ranges::equal(*block, BlockOf(content[i], b))) ++wrong;
            } else if (block.error().code() != ErrorCode::kNotFound) {
              ++wrong;
            }
          }
          if (object->complete()) {
            const auto good = object->VerifyIfChanged();
            if (!good.ok() || !*good) ++wrong;
          }
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(reads, 100);
  for (uint64_t i = 0; i < kObjects; ++i) {
    if (cache_->SetPinned(Id(i + 1), false).ok()) {
      EXPECT_THAT(cache_->Evict(Id(i + 1)), IsOk());
    }
  }
  EXPECT_EQ(cache_->status().objects, 0U);
  EXPECT_EQ(cache_->status().used_bytes, 0U);
  EXPECT_EQ(cache_->status().corrupt_blocks, 0U);
}

TEST_F(BlockCacheTest, ConcurrentStoresOfOneBlockAreOne) {
  const Bytes content = RandomBytes(3 * kMiB, 1);
  const ObjectRef object = Begin(Id(1), content);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (uint64_t b = 0; b < 3; ++b) EXPECT_THAT(Store(object, content, b), IsOk());
      });
    }
  }
  EXPECT_TRUE(object->complete());
  EXPECT_EQ(cache_->status().used_bytes, content.size());
  EXPECT_TRUE(*object->VerifyIfChanged());
  EXPECT_EQ(cache_->status().corrupt_blocks, 0U);
}

// Dirty files come, are written, sealed, saved and discarded by several threads.
TEST_F(BlockCacheTest, ManyWritersAtOnce) {
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = 0; i < 40; ++i) {
          const uint64_t inode = 1 + t + 4 * i;
          const Bytes bytes = RandomBytes(2000 + i, inode);
          const auto object = cache_->CreateDirty(InodeId(inode), Generation());
          if (!object.ok() || ::pwrite((*object)->fd(), bytes.data(), bytes.size(), 0) < 0) ++wrong;
          auto manifest = (*object)->ComputeManifest();
          if (!manifest.ok() ||
              !(*object)->Seal(Generation(1), std::move(manifest).value(), i % 3 == 0).ok()) {
            ++wrong;
          }
          if (i % 4 == 0 && !(*object)->Sync().ok()) ++wrong;
          if (i % 5 == 0) (*object)->Discard();
          if (i % 5 == 1 && !(*object)->MarkSaved().ok()) ++wrong;
        }
      });
    }
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        if (!cache_->Unsaved().ok()) ++wrong;
        static_cast<void>(cache_->status());
        cache_->ForEach([](const ObjectId&, uint64_t, uint64_t) { return true; });
      }
    });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache_->status().objects, 160U - 32U);
  Reopen();
  EXPECT_EQ(cache_->status().objects, 160U - 32U);
  EXPECT_EQ(cache_->status().problem, "");
}

// On a tmpfs of 8 MiB the disk is full before our limits are: blocks are refused or older objects
// make room, nothing wrong is read, and it goes on when there is room again.
TEST_F(BlockCacheTest, AFullDiskIsCleanlyRefused) {
  cache_.reset();
  const std::string mount = directory_.path() + "/small";
  std::filesystem::create_directory(mount);
  if (::mount("quadfs-test", mount.c_str(), "tmpfs", 0, "size=8m") != 0) {
    GTEST_SKIP() << "cannot mount a tmpfs here (not root?)";
  }
  options_.directory = mount + "/cache";
  Open();
  const Bytes content = RandomBytes(12 * kMiB, 1);
  {
    const ObjectRef object = Begin(Id(1), content);
    uint64_t stored = 0;
    Result<void> last;
    for (uint64_t b = 0; b < 12; ++b) {
      last = Store(object, content, b);
      if (last.ok()) ++stored;
    }
    EXPECT_THAT(last, IsError(ErrorCode::kNoSpace));
    EXPECT_GE(stored, 6U);
    EXPECT_LT(stored, 9U);
    EXPECT_NE(cache_->status().problem, "");
    for (uint64_t b = 0; b < 12; ++b) {
      const auto block = object->ReadBlock(b);
      EXPECT_EQ(block.ok(), object->HasBlock(b));
      if (block.ok()) {
        EXPECT_TRUE(std::ranges::equal(*block, BlockOf(content, b)));
      }
    }
  }
  const Bytes other = RandomBytes(2 * kMiB, 2);
  cache_->Flush();
  Fill(Id(2), other);  // The first object makes room.
  EXPECT_THAT(cache_->Find(Id(1)), IsError(ErrorCode::kNotFound));
  EXPECT_EQ(cache_->status().problem, "");
  cache_.reset();
  EXPECT_EQ(::umount2(mount.c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace quadfs::cache
