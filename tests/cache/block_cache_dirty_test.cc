// Written files: dirty, sealed, saved; and what a kill of the process leaves.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "tests/cache/block_cache_fixture.h"

namespace quadfs::cache {
namespace {

using test::BlockOf;
using test::IsError;
using test::IsOk;
using test::RandomBytes;

constexpr size_t kMiB = kBlockBytes;

class DirtyTest : public BlockCacheTest {
 protected:
  /// The state that kill -9 at this moment would leave, opened beside the living cache.
  struct Survivor {
    explicit Survivor(DirtyTest& test)
        : directory(test.directory_.path() + "/killed-" + std::to_string(++test.kills_)),
          index(test.index_.rows()) {
      std::filesystem::copy(test.options_.directory, directory,
                            std::filesystem::copy_options::recursive);
      BlockCache::Options options = test.options_;
      options.directory = directory;
      auto opened = BlockCache::Open(options, index);
      EXPECT_THAT(opened, IsOk());
      cache = std::move(opened).value();
    }
    std::string directory;
    test::MemIndexStore index;
    std::unique_ptr<BlockCache> cache;
  };
  int kills_ = 0;
  std::atomic<bool> fail_{false};
  std::atomic<int> fired_{0};

  static void PWrite(const ObjectRef& object, const Bytes& bytes, uint64_t offset) {
    ASSERT_EQ(::pwrite(object->fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes.size()));
  }
};

TEST_F(DirtyTest, ANewFileIsWrittenSealedAndSaved) {
  const Bytes content = RandomBytes(2 * kMiB + 5, 1);
  const ObjectRef object = Written(7, content);
  EXPECT_TRUE(object->dirty());
  EXPECT_TRUE(object->complete());
  EXPECT_EQ(object->size_bytes(), content.size());
  EXPECT_THAT(object->ReadBlock(0), IsError(ErrorCode::kStale));
  EXPECT_THAT(object->StoreBlock(0, BlockOf(content, 0)), IsError(ErrorCode::kStale));
  EXPECT_EQ(cache_->status().dirty_objects, 1U);
  EXPECT_EQ(*cache_->FindDirty(InodeId(7)), object);
  EXPECT_THAT(cache_->CreateDirty(InodeId(7), Generation()), IsError(ErrorCode::kExists));
  Seal(object, 3);
  EXPECT_EQ(object->id(), Id(7, 3));
  EXPECT_FALSE(object->dirty());
  EXPECT_TRUE(object->unsaved());
  EXPECT_EQ(cache_->status().unsaved_objects, 1U);
  EXPECT_EQ(*cache_->Find(Id(7, 3)), object);
  EXPECT_THAT(cache_->FindDirty(InodeId(7)), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(object->ReadBlock(2), IsOk());
  EXPECT_TRUE(*object->VerifyIfChanged());
  ASSERT_THAT(object->MarkSaved(), IsOk());
  EXPECT_FALSE(object->unsaved());
  EXPECT_EQ(cache_->status().unsaved_objects, 0U);
}

TEST_F(DirtyTest, ACompleteVersionIsRewrittenInPlaceAndSealedAsTheNext) {
  const Bytes first = RandomBytes(2 * kMiB, 2);
  const ObjectRef object = Fill(Id(1, 1), first);
  const size_t syncs = index_.syncs();
  ASSERT_THAT(object->MakeDirty(), IsOk());
  ASSERT_THAT(object->MakeDirty(), IsOk());
  EXPECT_EQ(index_.syncs(), syncs + 1);  // One sync an open, for what is about to be overwritten.
  EXPECT_EQ(object->id(), Id(1, 1));
  EXPECT_THAT(cache_->Find(Id(1, 1)), IsError(ErrorCode::kNotFound));
  Bytes second = first;
  const Bytes piece = RandomBytes(100, 3);
  std::ranges::copy(piece, second.begin() + kMiB + 5);
  PWrite(object, piece, kMiB + 5);
  // Blocks that still are what the old version says may be served, others never.
  EXPECT_THAT(object->ReadBlock(0), IsOk());
  EXPECT_THAT(object->ReadBlock(1), IsError(ErrorCode::kStale));
  EXPECT_EQ(*object->manifest(), Manifest::Of(first));
  Seal(object, 2);
  EXPECT_EQ(test::ReadWhole((*cache_->Find(Id(1, 2)))->path()), second);
  // The old version may be fetched again, as another object.
  const ObjectRef old = Fill(Id(1, 1), first);
  EXPECT_NE(old->path(), object->path());
}

TEST_F(DirtyTest, AFileStillOpenForWriteServesOnlyWhatMatches) {
  const Bytes first = RandomBytes(2 * kMiB, 4);
  const ObjectRef object = Written(1, first);
  Seal(object, 1, /*still_open=*/true);
  EXPECT_TRUE(object->dirty());
  EXPECT_TRUE(object->unsaved());
  EXPECT_EQ(*cache_->Find(Id(1, 1)), object);
  EXPECT_EQ(*cache_->FindDirty(InodeId(1)), object);
  EXPECT_THAT(object->ReadBlock(1), IsOk());
  PWrite(object, RandomBytes(10, 5), kMiB);
  EXPECT_THAT(object->ReadBlock(1), IsError(ErrorCode::kStale));
  EXPECT_THAT(object->ReadBlock(0), IsOk());
  Seal(object, 2);
  EXPECT_FALSE(object->dirty());
  EXPECT_THAT(cache_->Find(Id(1, 1)), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(object->ReadBlock(1), IsOk());
}

// Opened for write, nothing written: the same version again, saved or not as before.
TEST_F(DirtyTest, SealingTheSameVersionEndsTheDirtyState) {
  const Bytes content = RandomBytes(1000, 6);
  const ObjectRef object = Fill(Id(1, 5), content);
  ASSERT_THAT(object->MakeDirty(), IsOk());
  Seal(object, 5);
  EXPECT_FALSE(object->dirty());
  EXPECT_FALSE(object->unsaved());
  EXPECT_THAT(cache_->Find(Id(1, 5)), IsOk());
}

TEST_F(DirtyTest, AWriteAfterTheManifestIsFoundByTheNextCheck) {
  const ObjectRef object = Written(1, RandomBytes(2 * kMiB, 7));
  auto manifest = object->ComputeManifest();
  ASSERT_THAT(manifest, IsOk());
  PWrite(object, RandomBytes(10, 8), 0);
  ASSERT_THAT(object->Seal(Generation(1), std::move(manifest).value(), false), IsOk());
  EXPECT_FALSE(*object->VerifyIfChanged());
  EXPECT_FALSE(object->HasBlock(0));
  EXPECT_TRUE(object->HasBlock(1));
}

TEST_F(DirtyTest, SealRefusesAnotherSizeAndATakenVersion) {
  const ObjectRef object = Written(1, RandomBytes(1000, 9));
  EXPECT_THAT(object->Seal(Generation(2), Manifest::Of(RandomBytes(999, 1)), false),
              IsError(ErrorCode::kStale));
  const ObjectRef other = Fill(Id(1, 2), RandomBytes(10, 1));
  auto manifest = object->ComputeManifest();
  ASSERT_THAT(manifest, IsOk());
  EXPECT_THAT(object->Seal(Generation(2), *manifest, false), IsError(ErrorCode::kExists));
  EXPECT_TRUE(object->dirty());
  EXPECT_THAT(other->Seal(Generation(3), *manifest, false), IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(object->Seal(Generation(3), *manifest, false), IsOk());
}

TEST_F(DirtyTest, DiscardedObjectsGoWithTheirLastUser) {
  const ObjectRef object = Written(1, RandomBytes(1000, 10));
  ASSERT_THAT(object->Sync(), IsOk());
  const std::string path = object->path();
  object->Discard();
  EXPECT_THAT(cache_->FindDirty(InodeId(1)), IsError(ErrorCode::kNotFound));
  EXPECT_EQ(cache_->status().dirty_objects, 0U);
  PWrite(object, RandomBytes(10, 1), 0);  // Its users go on, as with any unlinked file.
  EXPECT_TRUE(std::filesystem::exists(path));
  ObjectRef copy = object;
  const_cast<ObjectRef&>(object).reset();
  EXPECT_TRUE(std::filesystem::exists(path));
  copy.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  Reopen();
  EXPECT_TRUE(cache_->Unsaved()->empty());
}

TEST_F(DirtyTest, SyncCostsNoRowOnceItsRowIsDurable) {
  const ObjectRef object = Written(1, RandomBytes(1000, 11));
  ASSERT_THAT(object->Sync(), IsOk());
  const size_t syncs = index_.syncs();
  for (int i = 0; i < 5; ++i) {
    PWrite(object, RandomBytes(1000, 12), 0);
    ASSERT_THAT(object->Sync(), IsOk());
  }
  EXPECT_EQ(index_.syncs(), syncs);
}

TEST_F(DirtyTest, AFailedSyncIsRememberedForEver) {
  cache_.reset();
  options_.sync_data = [this](int fd) {
    if (!fail_) return ::fdatasync(fd) == 0 ? 0 : errno;
    ++fired_;
    return EIO;
  };
  Open();
  const ObjectRef object = Written(1, RandomBytes(1000, 13));
  ASSERT_THAT(object->Sync(), IsOk());
  fail_ = true;
  EXPECT_THAT(object->Sync(), IsError(ErrorCode::kIo));
  EXPECT_GE(fired_, 1);
  fail_ = false;
  EXPECT_THAT(object->Sync(), IsError(ErrorCode::kIo));
  EXPECT_NE(cache_->status().problem, "");
  // A clean object only forgets what it stored since.
  const Bytes content = RandomBytes(2 * kMiB, 14);
  const ObjectRef clean = Begin(Id(2), content);
  ASSERT_THAT(Store(clean, content, 0), IsOk());
  cache_->Flush();
  fail_ = true;
  ASSERT_THAT(Store(clean, content, 1), IsOk());
  cache_->Flush();
  EXPECT_TRUE(clean->HasBlock(0));
  EXPECT_FALSE(clean->HasBlock(1));
  EXPECT_FALSE(clean->complete());
  fail_ = false;
  ASSERT_THAT(Store(clean, content, 1), IsOk());
  cache_->Flush();
  EXPECT_TRUE(clean->complete());
}

// ---- Partially dirty

TEST_F(DirtyTest, MissingBlocksAreFilledUnderAProgramsWrites) {
  const Bytes old = RandomBytes(6 * kMiB + 100, 15);
  Bytes expected = old;
  const ObjectRef object = Begin(Id(1), old);
  ASSERT_THAT(Store(object, old, 0), IsOk());
  ASSERT_THAT(object->MakePartialDirty(), IsOk());
  EXPECT_TRUE(object->dirty());
  EXPECT_FALSE(object->complete());
  EXPECT_EQ(object->size_bytes(), old.size());
  EXPECT_THAT(object->ComputeManifest(), IsError(ErrorCode::kBusy));
  const auto write = [&](uint64_t offset, const Bytes& bytes) {
    auto written = object->Write(offset, bytes);
    if (written.ok()) {
      expected.resize(std::max<size_t>(expected.size(), offset + bytes.size()));
      std::ranges::copy(bytes, expected.begin() + static_cast<ptrdiff_t>(offset));
    }
    return written;
  };
  ASSERT_THAT(write(10, RandomBytes(50, 1)), IsOk());  // A block that is here.
  EXPECT_THAT(write(kMiB + 10, RandomBytes(50, 2)), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(write(2 * kMiB - 1, RandomBytes(kMiB + 1, 3)), IsError(ErrorCode::kNotFound));
  ASSERT_THAT(write(2 * kMiB, RandomBytes(2 * kMiB, 4)), IsOk());  // Two whole blocks.
  EXPECT_TRUE(object->HasBlock(2));
  EXPECT_TRUE(object->HasBlock(3));
  ASSERT_THAT(write(6 * kMiB + 100, RandomBytes(500, 5)), IsOk());  // Behind the old end.
  EXPECT_FALSE(object->HasBlock(6));
  for (uint64_t i = 0; i < 7; ++i) {
    EXPECT_FALSE(object->complete());
    ASSERT_THAT(Store(object, old, i), IsOk());
  }
  EXPECT_TRUE(object->complete());
  EXPECT_EQ(test::ReadWhole(object->path()), expected);
  Seal(object, 2);
  EXPECT_EQ(*object->manifest(), Manifest::Of(expected));
}

TEST_F(DirtyTest, WhatATruncateCutOffIsNotFilled) {
  const Bytes old = RandomBytes(3 * kMiB, 16);
  const ObjectRef object = Begin(Id(1), old);
  ASSERT_THAT(object->MakePartialDirty(), IsOk());
  ASSERT_THAT(object->NoteTruncate(kMiB + 10), IsOk());
  ASSERT_THAT(object->NoteTruncate(2 * kMiB), IsOk());
  EXPECT_TRUE(object->HasBlock(2));
  ASSERT_THAT(Store(object, old, 1), IsOk());
  ASSERT_THAT(Store(object, old, 0), IsOk());
  EXPECT_TRUE(object->complete());
  Bytes expected(old.begin(), old.begin() + kMiB + 10);
  expected.resize(2 * kMiB);
  EXPECT_EQ(test::ReadWhole(object->path()), expected);
}

TEST_F(DirtyTest, AfterAKillNoProgramsBytesAreFilledOver) {
  const Bytes old = RandomBytes(4 * kMiB, 17);
  const Bytes piece = RandomBytes(kMiB, 18);
  const ObjectRef object = Begin(Id(1), old);
  ASSERT_THAT(Store(object, old, 0), IsOk());
  ASSERT_THAT(object->MakePartialDirty(), IsOk());
  ASSERT_THAT(object->Write(kMiB, piece), IsOk());
  const Survivor survivor(*this);
  const auto found = survivor.cache->FindDirty(InodeId(1));
  ASSERT_THAT(found, IsOk());
  EXPECT_TRUE((*found)->HasBlock(1));
  ASSERT_NE((*found)->manifest(), nullptr);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_THAT(Store(*found, old, i), IsOk());
  EXPECT_TRUE((*found)->complete());
  Bytes expected = old;
  std::ranges::copy(piece, expected.begin() + kMiB);
  EXPECT_EQ(test::ReadWhole((*found)->path()), expected);
}

// ---- Kill -9

TEST_F(DirtyTest, AKillLosesNoDirtyAndNoSealedFile) {
  const Bytes content = RandomBytes(kMiB + 7, 19);
  const Bytes large = RandomBytes(35 * kMiB, 20);
  const ObjectRef dirty = Written(1, content, 4);
  const ObjectRef sealed = Written(2, content);
  Seal(sealed, 6);
  const ObjectRef open = Written(3, large);
  Seal(open, 1, /*still_open=*/true);
  PWrite(open, RandomBytes(5, 1), 0);
  const ObjectRef remade = Fill(Id(4, 2), content);
  ASSERT_THAT(remade->MakeDirty(), IsOk());
  PWrite(remade, RandomBytes(5, 2), 0);

  Survivor survivor(*this);
  EXPECT_EQ(survivor.cache->status().problem, "");
  const auto unsaved = survivor.cache->Unsaved();
  ASSERT_THAT(unsaved, IsOk());
  EXPECT_EQ(unsaved->size(), 4U);
  const ObjectRef one = *survivor.cache->FindDirty(InodeId(1));
  EXPECT_EQ(one->id(), Id(1, 4));
  EXPECT_EQ(test::ReadWhole(one->path()), content);
  const ObjectRef two = *survivor.cache->Find(Id(2, 6));
  EXPECT_TRUE(two->unsaved());
  EXPECT_FALSE(two->dirty());
  EXPECT_TRUE(*two->VerifyIfChanged());
  const ObjectRef three = *survivor.cache->Find(Id(3, 1));
  EXPECT_TRUE(three->dirty());
  EXPECT_EQ(*survivor.cache->FindDirty(InodeId(3)), three);
  EXPECT_EQ(*three->manifest(), Manifest::Of(large));
  EXPECT_THAT(three->ReadBlock(0), IsError(ErrorCode::kStale));
  const ObjectRef four = *survivor.cache->FindDirty(InodeId(4));
  EXPECT_EQ(four->id(), Id(4, 2));
  EXPECT_EQ(test::ReadWhole(four->path()), test::ReadWhole(remade->path()));
}

// Each write of the index fails in turn while a file is written and sealed; the file is never lost.
TEST_F(DirtyTest, AFailingIndexNeverLosesTheFile) {
  const Bytes content = RandomBytes(33 * kMiB, 21);
  const ObjectRef object = Written(1, content);
  auto manifest = object->ComputeManifest();
  ASSERT_THAT(manifest, IsOk());
  size_t n = 0;
  for (;; ++n) {
    ASSERT_LT(n, 20U);
    const size_t fired = index_.faults_fired();
    index_.FailAfter(n);
    const auto sealed = object->Seal(Generation(2), *manifest, false);
    index_.FailAfter(test::MemIndexStore::kUnlimited);
    const Survivor survivor(*this);
    const auto unsaved = survivor.cache->Unsaved();
    ASSERT_THAT(unsaved, IsOk());
    ASSERT_EQ(unsaved->size(), 1U) << n;
    EXPECT_EQ(test::ReadWhole(unsaved->front()->path()), content);
    EXPECT_EQ(unsaved->front()->dirty(), !sealed.ok());
    if (sealed.ok()) break;
    ASSERT_GT(index_.faults_fired(), fired);
    EXPECT_TRUE(object->dirty());
  }
  EXPECT_GE(n, 2U);
}

}  // namespace
}  // namespace quadfs::cache
