#include "cache/block_cache.h"

#include <sys/stat.h>

#include "tests/cache/block_cache_fixture.h"

namespace quadfs::cache {
namespace {

using test::BlockOf;
using test::IsError;
using test::IsOk;
using test::RandomBytes;
using testing::HasSubstr;

constexpr size_t kMiB = kBlockBytes;

TEST_F(BlockCacheTest, StoredBlocksAreReadBack) {
  const Bytes content = RandomBytes(2 * kMiB + 100, 1);
  const ObjectRef object = Begin(Id(1), content);
  EXPECT_FALSE(object->complete());
  ASSERT_THAT(Store(object, content, 2), IsOk());
  EXPECT_TRUE(object->HasBlock(2));
  EXPECT_FALSE(object->HasBlock(0));
  EXPECT_EQ(object->present_bytes(), 100U);
  EXPECT_THAT(object->ReadBlock(0), IsError(ErrorCode::kNotFound));
  const auto block = object->ReadBlock(2);
  ASSERT_THAT(block, IsOk());
  EXPECT_TRUE(std::ranges::equal(*block, BlockOf(content, 2)));

  ASSERT_THAT(Store(object, content, 0), IsOk());
  ASSERT_THAT(Store(object, content, 1), IsOk());
  ASSERT_THAT(Store(object, content, 1), IsOk());  // Again is fine.
  EXPECT_TRUE(object->complete());
  EXPECT_EQ(test::ReadWhole(object->path()), content);
  EXPECT_EQ(cache_->status().used_bytes, content.size());
  const auto unchanged = object->VerifyIfChanged();
  ASSERT_THAT(unchanged, IsOk());
  EXPECT_TRUE(*unchanged);
}

TEST_F(BlockCacheTest, NothingIsStoredThatDoesNotMatch) {
  const Bytes content = RandomBytes(2 * kMiB, 2);
  const Manifest manifest = Manifest::Of(content);
  const auto object = cache_->FindOrCreate(Id(1), content.size(), manifest.Root());
  ASSERT_THAT(object, IsOk());
  EXPECT_THAT(Store(*object, content, 0), IsError(ErrorCode::kInvalidArgument));  // No manifest.
  EXPECT_THAT((*object)->SetManifest(Manifest::Of(RandomBytes(2 * kMiB, 3))),
              IsError(ErrorCode::kCorruption));
  ASSERT_THAT((*object)->SetManifest(manifest), IsOk());
  ASSERT_THAT((*object)->SetManifest(manifest), IsOk());
  EXPECT_THAT((*object)->StoreBlock(0, BlockOf(content, 1)), IsError(ErrorCode::kCorruption));
  EXPECT_THAT((*object)->StoreBlock(0, BlockOf(content, 0).first(100)),
              IsError(ErrorCode::kCorruption));
  EXPECT_THAT((*object)->StoreBlock(2, BlockOf(content, 0)), IsError(ErrorCode::kInvalidArgument));
  EXPECT_FALSE((*object)->HasBlock(0));
  EXPECT_EQ(cache_->status().used_bytes, 0U);
}

TEST_F(BlockCacheTest, ObjectsSurviveACleanRestart) {
  const Bytes small = RandomBytes(1000, 4);
  const Bytes large = RandomBytes(40 * kMiB + 1, 5);  // Its manifest has a row of its own.
  Fill(Id(1), small);
  {
    const ObjectRef object = Begin(Id(2, 9), large);
    for (uint64_t i = 1; i < 41; i += 2) ASSERT_THAT(Store(object, large, i), IsOk());
  }
  Reopen();
  const auto first = cache_->Find(Id(1));
  ASSERT_THAT(first, IsOk());
  EXPECT_TRUE((*first)->complete());
  EXPECT_TRUE(*(*first)->VerifyIfChanged());
  EXPECT_EQ(test::ReadWhole((*first)->path()), small);
  const auto second = cache_->Find(Id(2, 9));
  ASSERT_THAT(second, IsOk());
  EXPECT_FALSE((*second)->complete());
  ASSERT_NE((*second)->manifest(), nullptr);
  for (uint64_t i = 0; i < 41; ++i) {
    EXPECT_EQ((*second)->HasBlock(i), i % 2 == 1) << i;
    if (i % 2 == 0) {
      EXPECT_THAT(Store(*second, large, i), IsOk());
    }
  }
  EXPECT_TRUE((*second)->complete());
  EXPECT_EQ(test::ReadWhole((*second)->path()), large);
  EXPECT_THAT(cache_->Find(Id(3)), IsError(ErrorCode::kNotFound));
  EXPECT_EQ(cache_->status().problem, "");
}

TEST_F(BlockCacheTest, AnObjectIsOpenedOnceAndShared) {
  const Bytes content = RandomBytes(2 * kMiB, 6);
  const ObjectRef one = Begin(Id(1), content);
  const ObjectRef two = Begin(Id(1), content);
  ASSERT_THAT(Store(one, content, 0), IsOk());
  EXPECT_TRUE(two->HasBlock(0));
  EXPECT_EQ(one->fd(), two->fd());
}

TEST_F(BlockCacheTest, AnEmptyVersionIsCompleteAtOnce) {
  const auto object = cache_->FindOrCreate(Id(1), 0, Manifest().Root());
  ASSERT_THAT(object, IsOk());
  EXPECT_TRUE((*object)->complete());
  const auto unnamed = cache_->FindOrCreate(Id(2), 0, Checksum());
  ASSERT_THAT(unnamed, IsOk());
  EXPECT_TRUE((*unnamed)->complete());
}

TEST_F(BlockCacheTest, OtherContentOfTheSameVersionReplacesWhatIsNotInUse) {
  Fill(Id(1), RandomBytes(1000, 1));
  const Bytes other = RandomBytes(2000, 2);
  ObjectRef object = Fill(Id(1), other);
  EXPECT_EQ(test::ReadWhole(object->path()), other);
  EXPECT_THAT(cache_->FindOrCreate(Id(1), 10, Manifest::Of(RandomBytes(10, 3)).Root()),
              IsError(ErrorCode::kStale));
}

// Blocks of zeros take no disk space, and still are there.
TEST_F(BlockCacheTest, ZeroBlocksBecomeHoles) {
  Bytes content(8 * kMiB + 3);
  const Bytes piece = RandomBytes(kMiB, 8);
  std::ranges::copy(piece, content.begin() + 2 * kMiB);
  const ObjectRef object = Fill(Id(1), content);
  EXPECT_EQ(test::ReadWhole(object->path()), content);
  struct stat status {};
  ASSERT_EQ(::stat(object->path().c_str(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, static_cast<blkcnt_t>(2 * kMiB));
  EXPECT_THAT(object->ReadBlock(8), IsOk());
}

TEST_F(BlockCacheTest, FilesAreForUsOnly) {
  const ObjectRef object = Fill(Id(1), RandomBytes(1000, 1));
  struct stat status {};
  ASSERT_EQ(::stat(object->path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(options_.directory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
}

TEST_F(BlockCacheTest, ADirectoryInUseIsRefused) {
  test::MemIndexStore other;
  const auto second = BlockCache::Open(options_, other);
  ASSERT_THAT(second, IsError(ErrorCode::kBusy));
  EXPECT_THAT(second.error().message(), HasSubstr(options_.directory));
}

// ---- Damage

TEST_F(BlockCacheTest, AFlippedByteIsNeverRead) {
  const Bytes content = RandomBytes(3 * kMiB + 10, 9);
  const ObjectRef object = Fill(Id(1), content);
  for (const uint64_t offset : {uint64_t{0}, uint64_t{2 * kMiB - 1}, uint64_t{3 * kMiB + 9}}) {
    test::FlipByte(object->path(), offset);
    const uint64_t index = offset / kMiB;
    EXPECT_THAT(object->ReadBlock(index), IsError(ErrorCode::kCorruption));
    EXPECT_THAT(object->ReadBlock(index), IsError(ErrorCode::kNotFound));  // Dropped.
    EXPECT_FALSE(object->complete());
    ASSERT_THAT(Store(object, content, index), IsOk());
    EXPECT_THAT(object->ReadBlock(index), IsOk());
    EXPECT_TRUE(object->complete());
  }
  EXPECT_EQ(cache_->status().corrupt_blocks, 3U);
  EXPECT_EQ(cache_->status().used_bytes, content.size());
}

// What somebody changed while the file was complete is found before it is passed through.
TEST_F(BlockCacheTest, AChangedCompleteFileIsCheckedBeforeUse) {
  const Bytes content = RandomBytes(3 * kMiB, 10);
  Fill(Id(1), content);
  Reopen();
  ObjectRef object = *cache_->Find(Id(1));
  test::FlipByte(object->path(), kMiB + 5);
  auto whole = object->VerifyIfChanged();
  ASSERT_THAT(whole, IsOk());
  EXPECT_FALSE(*whole);
  EXPECT_TRUE(object->HasBlock(0));
  EXPECT_FALSE(object->HasBlock(1));
  ASSERT_THAT(Store(object, content, 1), IsOk());
  whole = object->VerifyIfChanged();
  ASSERT_THAT(whole, IsOk());
  EXPECT_TRUE(*whole);
  // A change of times alone costs one check and is remembered.
  struct timespec times[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::futimens(object->fd(), times), 0);
  EXPECT_TRUE(*object->VerifyIfChanged());
  object.reset();
  Reopen();
  EXPECT_TRUE(*(*cache_->Find(Id(1)))->VerifyIfChanged());
  EXPECT_EQ(test::ReadWhole((*cache_->Find(Id(1)))->path()), content);
}

TEST_F(BlockCacheTest, ATruncatedOrGrownFileIsRepaired) {
  const Bytes content = RandomBytes(3 * kMiB + 7, 11);
  const ObjectRef object = Fill(Id(1), content);
  ASSERT_EQ(::truncate(object->path().c_str(), kMiB + 5), 0);
  EXPECT_FALSE(*object->VerifyIfChanged());
  EXPECT_TRUE(object->HasBlock(0));
  for (const uint64_t i : {1, 2, 3}) {
    EXPECT_FALSE(object->HasBlock(i));
    ASSERT_THAT(Store(object, content, i), IsOk());
  }
  ASSERT_EQ(::truncate(object->path().c_str(), 5 * kMiB), 0);
  EXPECT_TRUE(*object->VerifyIfChanged());
  EXPECT_EQ(test::ReadWhole(object->path()), content);
}

// ---- Room

TEST_F(BlockCacheTest, TheLeastRecentlyUsedObjectGoesFirst) {
  cache_.reset();
  options_.capacity_bytes = 4 * kMiB;
  Open();
  const Bytes content = RandomBytes(kMiB, 12);
  for (const uint64_t inode : {1, 2, 3, 4}) {
    Fill(Id(inode), content);
    cache_->Flush();
  }
  ASSERT_THAT(cache_->Find(Id(1)), IsOk());  // Used: 2 is the oldest now.
  Reopen();                                  // The order survives.
  Fill(Id(5), content);
  cache_->Flush();
  EXPECT_THAT(cache_->Find(Id(2)), IsError(ErrorCode::kNotFound));
  Fill(Id(6), content);
  cache_->Flush();
  EXPECT_THAT(cache_->Find(Id(3)), IsError(ErrorCode::kNotFound));
  for (const uint64_t inode : {1, 4, 5, 6}) EXPECT_THAT(cache_->Find(Id(inode)), IsOk()) << inode;
  EXPECT_EQ(cache_->status().evicted_objects, 2U);
  EXPECT_LE(cache_->status().used_bytes, options_.capacity_bytes);
}

TEST_F(BlockCacheTest, PinnedOpenDirtyAndUnsavedObjectsStay) {
  cache_.reset();
  options_.capacity_bytes = 4 * kMiB;
  Open();
  const Bytes content = RandomBytes(kMiB, 13);
  Fill(Id(1), content);
  ASSERT_THAT(cache_->SetPinned(Id(1), true), IsOk());
  const ObjectRef open = Fill(Id(2), content);
  ObjectRef unsaved = Written(3, content);
  Seal(unsaved, 1);
  const ObjectRef dirty = Written(4, content);
  ASSERT_THAT(dirty->Sync(), IsOk());
  cache_->Flush();
  for (const uint64_t inode : {1, 2, 3}) {
    EXPECT_THAT(cache_->Evict(Id(inode)), IsError(ErrorCode::kBusy)) << inode;
  }
  ObjectRef more = Begin(Id(5), content);
  // The dirty file's size is only looked at now and then: fill to be over the limit for sure.
  ObjectRef extra = Begin(Id(6), content);
  Result<void> stored = Store(more, content, 0);
  if (stored.ok()) stored = Store(extra, content, 0);
  EXPECT_THAT(stored, IsError(ErrorCode::kNoSpace));
  EXPECT_THAT(cache_->status().problem, HasSubstr("cache_bytes"));
  more.reset();
  extra.reset();

  unsaved.reset();
  ASSERT_THAT(cache_->Find(Id(3)), IsOk());
  ASSERT_THAT((*cache_->Find(Id(3)))->MarkSaved(), IsOk());
  EXPECT_THAT(cache_->Evict(Id(3)), IsOk());
  EXPECT_THAT(cache_->Evict(Id(3)), IsError(ErrorCode::kNotFound));
  Fill(Id(7), content);
  EXPECT_EQ(cache_->status().problem, "");  // It went well again.
}

TEST_F(BlockCacheTest, PinsSurviveARestart) {
  const Bytes content = RandomBytes(1000, 14);
  Fill(Id(1), content);
  ASSERT_THAT(cache_->SetPinned(Id(1), true), IsOk());
  EXPECT_THAT(cache_->SetPinned(Id(2), true), IsError(ErrorCode::kNotFound));
  Reopen();
  EXPECT_THAT(cache_->Evict(Id(1)), IsError(ErrorCode::kBusy));
  ASSERT_THAT(cache_->SetPinned(Id(1), false), IsOk());
  EXPECT_THAT(cache_->Evict(Id(1)), IsOk());
}

TEST_F(BlockCacheTest, BelowTheFreeSpaceFloorNothingIsStored) {
  cache_.reset();
  options_.free_floor_bytes = uint64_t{1} << 60;
  Open();
  const Bytes content = RandomBytes(1000, 15);
  const ObjectRef object = Begin(Id(1), content);
  EXPECT_THAT(Store(object, content, 0), IsError(ErrorCode::kNoSpace));
  EXPECT_FALSE(object->HasBlock(0));
  EXPECT_THAT(cache_->CreateDirty(InodeId(2), Generation()), IsError(ErrorCode::kNoSpace));
  EXPECT_THAT(cache_->status().problem, HasSubstr("free space"));
}

TEST_F(BlockCacheTest, AnEvictedObjectLeavesNeitherFileNorRow) {
  const size_t rows_before = index_.rows().size();
  std::string path;
  {
    const Bytes large = RandomBytes(34 * kMiB, 16);
    path = Fill(Id(1), large)->path();
  }
  ASSERT_THAT(cache_->Evict(Id(1)), IsOk());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(index_.rows().size(), rows_before + 1);  // The run of slot numbers.
  EXPECT_EQ(cache_->status().used_bytes, 0U);
  EXPECT_EQ(cache_->status().objects, 0U);
}

TEST_F(BlockCacheTest, ForEachReportsWhatIsPresent) {
  const Bytes content = RandomBytes(2 * kMiB, 17);
  const ObjectRef object = Begin(Id(1), content);
  ASSERT_THAT(Store(object, content, 1), IsOk());
  int calls = 0;
  cache_->ForEach([&](const ObjectId& id, uint64_t present, uint64_t size) {
    ++calls;
    EXPECT_EQ(id, Id(1));
    EXPECT_EQ(present, kMiB);
    EXPECT_EQ(size, 2 * kMiB);
    return true;
  });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace quadfs::cache
