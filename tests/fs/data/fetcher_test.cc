#include "fs/data/fetcher.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/fs_data_source.h"
#include "tests/support/fs_data_store.h"
#include "tests/support/matchers.h"

namespace quadfs::fs {
namespace {

using test::Content;
using test::IsError;
using test::IsOk;
using test::MakeContent;
using Priority = Fetcher::Priority;

Deadline InTime() { return Deadline::After(std::chrono::seconds(20)); }

class FetcherTest : public testing::Test {
 protected:
  void Open(Fetcher::Options options = {}, uint64_t capacity = uint64_t{1} << 30) {
    cache::BlockCache::Options cache_options;
    cache_options.directory = directory_.path();
    cache_options.free_floor_bytes = 0;
    cache_options.capacity_bytes = capacity;
    auto opened = cache::BlockCache::Open(cache_options, index_);
    ASSERT_THAT(opened, IsOk());
    cache_ = std::move(*opened);
    options.first_back_off = std::chrono::milliseconds(2);
    fetcher_ = Fetcher::Create(options, *cache_, source_);
  }
  ~FetcherTest() override {
    source_.Release();
    if (fetcher_) fetcher_->Stop();
    fetcher_.reset();
  }
  cache::ObjectRef Add(uint64_t inode, size_t size) {
    const ObjectId id{InodeId(inode), Generation(1)};
    contents_[inode] = MakeContent(size, inode);
    source_.Add(id, contents_[inode]);
    auto object = cache_->FindOrCreate(id, size, cache::Manifest::Of(contents_[inode]).Root());
    EXPECT_THAT(object, IsOk());
    return *object;
  }
  void ExpectWhole(const cache::ObjectRef& object) {
    EXPECT_TRUE(object->complete());
    const Content& content = contents_[object->id().inode.value];
    for (uint64_t i = 0; i < cache::BlockCount(content.size()); ++i) {
      auto block = object->ReadBlock(i);
      ASSERT_THAT(block, IsOk());
      EXPECT_TRUE(std::ranges::equal(*block, test::BlockIn(content, i))) << i;
    }
  }

  test::ScratchDirectory directory_;
  test::SharedLocalStore local_;
  test::FamilyIndex index_{local_, "cache"};
  test::MemSource source_;
  std::unique_ptr<cache::BlockCache> cache_;
  std::unique_ptr<Fetcher> fetcher_;
  std::map<uint64_t, Content> contents_;
};

// A hundred threads ask for one block while the source is held: one request, one block.
TEST_F(FetcherTest, HoweverManyAskABlockIsFetchedOnce) {
  Open();
  const auto object = Add(1, 20 * kBlockBytes);
  source_.Hold();
  std::atomic<int> ok{0};
  std::vector<std::jthread> readers;
  for (int i = 0; i < 100; ++i) {
    readers.emplace_back(
        [&] { ok += fetcher_->Ensure(object, 7, 1, Priority::kReader, InTime()).ok() ? 1 : 0; });
  }
  source_.AwaitInside(1);
  source_.Release();
  readers.clear();
  EXPECT_EQ(ok, 100);
  EXPECT_EQ(source_.blocks, 1);
  EXPECT_EQ(source_.requests().size(), 1U);
}

// First byte of a file nobody knows: manifest and block in one request. One block: no manifest.
TEST_F(FetcherTest, TheManifestCostsNoRoundTripOfItsOwn) {
  Open();
  const auto large = Add(1, 9 * kBlockBytes + 3);
  ASSERT_THAT(fetcher_->Ensure(large, 0, 1, Priority::kReader, InTime()), IsOk());
  ASSERT_THAT(fetcher_->Ensure(large, 5, 2, Priority::kReader, InTime()), IsOk());
  ASSERT_EQ(source_.requests().size(), 2U);
  EXPECT_TRUE(source_.requests()[0].manifest);
  EXPECT_FALSE(source_.requests()[1].manifest);
  const auto small = Add(2, 1000);
  ASSERT_THAT(fetcher_->Complete(small, Priority::kReader, InTime()), IsOk());
  EXPECT_FALSE(source_.requests()[2].manifest);
  EXPECT_EQ(source_.manifests, 0);
  ExpectWhole(small);
}

TEST_F(FetcherTest, AnEmptyFileIsCompleteWithoutASource) {
  Open();
  const auto object = Add(1, 0);
  ASSERT_THAT(fetcher_->Complete(object, Priority::kReader, InTime()), IsOk());
  EXPECT_TRUE(object->complete());
  EXPECT_TRUE(source_.requests().empty());
}

// All of a large file, over several connections, while readers hop about in it.
TEST_F(FetcherTest, ALargeFileArrivesWholeWithoutABlockTwice) {
  Open();
  const auto object = Add(1, 60 * kBlockBytes + 77);
  std::vector<std::jthread> readers;
  for (int i = 0; i < 8; ++i) {
    readers.emplace_back([&, i] {
      for (uint64_t step = 0; step < 30; ++step) {
        const uint64_t block = (step * 37 + static_cast<uint64_t>(i) * 17) % 61;
        EXPECT_THAT(fetcher_->Ensure(object, block, 1, Priority::kReader, InTime()), IsOk());
      }
    });
  }
  ASSERT_THAT(fetcher_->Complete(object, Priority::kCompletion, InTime()), IsOk());
  readers.clear();
  EXPECT_EQ(source_.blocks, 61);
  ExpectWhole(object);
}

// Bulk fills every thread it may have; a reader who comes then still finds one.
TEST_F(FetcherTest, ABlockedReaderGoesBeforeAllThatNobodyWaitsFor) {
  Open({.connections = 3});
  const auto bulk = Add(1, 60 * kBlockBytes);
  const auto wanted = Add(2, 10 * kBlockBytes);
  source_.Hold();
  ASSERT_THAT(fetcher_->CompleteLater(bulk, Priority::kPrefetch), IsOk());
  source_.AwaitInside(1);
  std::jthread reader(
      [&] { EXPECT_THAT(fetcher_->Ensure(wanted, 3, 1, Priority::kReader, InTime()), IsOk()); });
  source_.AwaitInside(2);
  const auto requests = source_.requests();
  ASSERT_GE(requests.size(), 2U);
  EXPECT_EQ(requests.back().object.inode, InodeId(2));
  source_.Release();
}

// Queued as prefetch, then asked for by a reader: it does not wait for its turn in the queue.
TEST_F(FetcherTest, AReaderTakesOverWhatWasQueuedBehind) {
  Open({.connections = 1, .bulk_run_blocks = 4});
  const auto object = Add(1, 80 * kBlockBytes);
  source_.Hold();
  ASSERT_THAT(fetcher_->CompleteLater(object, Priority::kPrefetch), IsOk());
  source_.AwaitInside(1);
  std::jthread reader(
      [&] { EXPECT_THAT(fetcher_->Ensure(object, 70, 1, Priority::kReader, InTime()), IsOk()); });
  while (fetcher_->status().queued_runs < 2) std::this_thread::yield();
  source_.Release();
  reader.join();
  EXPECT_LT(source_.blocks, 20);
}

// Who passes a block on need not wait for all of it.
TEST_F(FetcherTest, ABlockIsPassedOnWhileItComes) {
  Open();
  const auto object = Add(1, 6 * kBlockBytes);
  source_.HoldHalfway();
  const auto arrival = fetcher_->AwaitArrival(object, 2, Priority::kReader, InTime());
  ASSERT_THAT(arrival, IsOk());
  ASSERT_NE(*arrival, nullptr);
  EXPECT_FALSE(object->HasBlock(2));
  const auto half = (*arrival)->Await(0, kBlockBytes, InTime());
  ASSERT_THAT(half, IsOk());
  EXPECT_TRUE(std::ranges::equal(*half, test::BlockIn(contents_[1], 2).first(kBlockBytes / 2)));
  source_.Release();
  size_t given = half->size();
  while (given < kBlockBytes) {
    const auto rest = (*arrival)->Await(given, kBlockBytes, InTime());
    ASSERT_THAT(rest, IsOk());
    ASSERT_FALSE(rest->empty());
    given += rest->size();
  }
  // Its last piece came after the check: the block is stored.
  EXPECT_TRUE(object->HasBlock(2));
  const auto present = fetcher_->AwaitArrival(object, 2, Priority::kReader, InTime());
  ASSERT_THAT(present, IsOk());
  EXPECT_EQ(*present, nullptr);
}

TEST_F(FetcherTest, ADamagedBlockIsNotPassedOnWhole) {
  Open();
  const auto object = Add(1, 6 * kBlockBytes);
  source_.DamageNext(1);
  source_.HoldHalfway();
  const auto arrival = fetcher_->AwaitArrival(object, 0, Priority::kReader, InTime());
  ASSERT_THAT(arrival, IsOk());
  ASSERT_NE(*arrival, nullptr);
  source_.Release();
  const auto end = (*arrival)->Await(kBlockBytes - 1, kBlockBytes, InTime());
  ASSERT_THAT(end, IsOk());
  EXPECT_TRUE(end->empty());
  ASSERT_THAT(fetcher_->Ensure(object, 0, 1, Priority::kReader, InTime()), IsOk());
}

// A damaged block is never stored: it is asked for again, and only it is counted.
TEST_F(FetcherTest, ADamagedBlockIsFetchedAgain) {
  Open();
  const auto object = Add(1, 6 * kBlockBytes);
  const auto small = Add(2, 500);
  source_.DamageNext(1);
  ASSERT_THAT(fetcher_->Complete(object, Priority::kReader, InTime()), IsOk());
  ExpectWhole(object);
  EXPECT_EQ(fetcher_->status().corrupt_blocks, 1U);
  source_.DamageNext(1);
  ASSERT_THAT(fetcher_->Complete(small, Priority::kReader, InTime()), IsOk());
  ExpectWhole(small);
  EXPECT_EQ(fetcher_->status().corrupt_blocks, 2U);
}

TEST_F(FetcherTest, ASourceThatOnlyHasDamageIsAnErrorNotALoop) {
  Open();
  const auto object = Add(1, 2 * kBlockBytes);
  source_.DamageNext(1'000'000);
  EXPECT_THAT(fetcher_->Ensure(object, 0, 1, Priority::kReader, InTime()),
              IsError(ErrorCode::kCorruption));
  EXPECT_LE(source_.blocks, 4);
  EXPECT_FALSE(object->HasBlock(0));
}

TEST_F(FetcherTest, FailuresArePassedOverUntilTheDeadline) {
  Open();
  const auto object = Add(1, 3 * kBlockBytes);
  source_.FailNext(5, ErrorCode::kUnavailable);
  ASSERT_THAT(fetcher_->Complete(object, Priority::kReader, InTime()), IsOk());
  EXPECT_GE(fetcher_->status().failed_runs, 1U);
  const auto other = Add(2, 3 * kBlockBytes);
  source_.FailNext(1'000'000, ErrorCode::kUnavailable);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_THAT(fetcher_->Ensure(other, 0, 1, Priority::kReader,
                               Deadline::After(std::chrono::milliseconds(300))),
              IsError(ErrorCode::kUnavailable));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
}

TEST_F(FetcherTest, ASourceThatHangsEndsAtTheDeadline) {
  Open();
  const auto object = Add(1, 3 * kBlockBytes);
  source_.Hold();
  EXPECT_THAT(fetcher_->Ensure(object, 0, 1, Priority::kReader,
                               Deadline::After(std::chrono::milliseconds(200))),
              IsError(ErrorCode::kTimedOut));
  // And what was only held up comes at the next try.
  source_.Release();
  EXPECT_THAT(fetcher_->Ensure(object, 0, 1, Priority::kReader, InTime()), IsOk());
}

TEST_F(FetcherTest, WhatNobodyHoldsFailsAtOnce) {
  Open();
  const auto object =
      *cache_->FindOrCreate({InodeId(9), Generation(1)}, 5 * kBlockBytes, Checksum{});
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_THAT(fetcher_->Ensure(object, 0, 1, Priority::kReader, InTime()),
              IsError(ErrorCode::kNotFound));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
}

TEST_F(FetcherTest, CancelForgetsReadAheadAndCompletion) {
  Open({.connections = 1, .bulk_run_blocks = 2});
  const auto object = Add(1, 60 * kBlockBytes);
  source_.Hold();
  ASSERT_THAT(fetcher_->CompleteLater(object, Priority::kCompletion), IsOk());
  source_.AwaitInside(1);
  fetcher_->Cancel(object->id());
  source_.Release();
  const auto other = Add(2, kBlockBytes);
  ASSERT_THAT(fetcher_->Complete(other, Priority::kPrefetch, InTime()), IsOk());
  EXPECT_LE(source_.blocks, 3);
  EXPECT_EQ(fetcher_->status().queued_runs, 0U);
}

// Somebody waits for the completion: closing the last handle must not take it away.
TEST_F(FetcherTest, CancelLeavesWhatSomebodyWaitsFor) {
  Open({.connections = 1, .bulk_run_blocks = 2});
  const auto object = Add(1, 30 * kBlockBytes);
  source_.Hold();
  std::jthread waiter(
      [&] { EXPECT_THAT(fetcher_->Complete(object, Priority::kCompletion, InTime()), IsOk()); });
  source_.AwaitInside(1);
  fetcher_->Cancel(object->id());
  source_.Release();
  waiter.join();
  ExpectWhole(object);
}

TEST_F(FetcherTest, SmallFilesTravelTogether) {
  Open();
  std::vector<cache::ObjectRef> objects;
  for (uint64_t i = 1; i <= 200; ++i) objects.push_back(Add(i, 100 * i));
  objects.push_back(Add(201, 3 * kBlockBytes));
  objects.push_back(Add(202, 0));
  ASSERT_THAT(fetcher_->CompleteBundle(objects, Priority::kReader, InTime()), IsOk());
  for (const auto& object : objects) ExpectWhole(object);
  EXPECT_LE(source_.bundles, 4);
}

// One of a bundle is gone: the others arrive, it is simply not complete.
TEST_F(FetcherTest, OneMissingFileDoesNotSpoilABundle) {
  Open();
  const auto gone = *cache_->FindOrCreate({InodeId(9), Generation(1)}, 10, Checksum{});
  const auto here = Add(1, 100);
  ASSERT_THAT(fetcher_->CompleteBundle({gone, here}, Priority::kReader, InTime()), IsOk());
  ExpectWhole(here);
  EXPECT_FALSE(gone->complete());
}

// Two bundles with the same files at once, and a reader of one of them: each is fetched once.
TEST_F(FetcherTest, BundlesAndReadersShareFetches) {
  Open();
  std::vector<cache::ObjectRef> objects;
  for (uint64_t i = 1; i <= 50; ++i) objects.push_back(Add(i, 1000));
  source_.Hold();
  std::jthread first(
      [&] { EXPECT_THAT(fetcher_->CompleteBundle(objects, Priority::kReader, InTime()), IsOk()); });
  source_.AwaitInside(1);
  std::jthread second(
      [&] { EXPECT_THAT(fetcher_->CompleteBundle(objects, Priority::kReader, InTime()), IsOk()); });
  std::jthread reader(
      [&] { EXPECT_THAT(fetcher_->Complete(objects[3], Priority::kReader, InTime()), IsOk()); });
  source_.Release();
  first.join();
  second.join();
  reader.join();
  EXPECT_EQ(source_.bundles, 1);
  for (const auto& object : objects) ExpectWhole(object);
}

// Sequential reads alone bring the whole file in.
TEST_F(FetcherTest, AFileReadInSequenceIsCompletedBehindTheReader) {
  Open();
  const auto object = Add(1, 40 * kBlockBytes);
  for (uint64_t block = 0; block < 12; ++block) {
    ASSERT_THAT(fetcher_->Ensure(object, block, 1, Priority::kReader, InTime()), IsOk());
    fetcher_->NoteRead(object, block * kBlockBytes, kBlockBytes);
  }
  const auto by = InTime();
  while (!object->complete() && !by.Passed()) std::this_thread::yield();
  ExpectWhole(object);
  EXPECT_EQ(source_.blocks, 40);
}

TEST_F(FetcherTest, RandomReadsFetchOnlyWhatIsAskedFor) {
  Open();
  const auto object = Add(1, 80 * kBlockBytes);
  uint64_t block = 7;
  std::set<uint64_t> asked;
  for (int i = 0; i < 20; ++i) {
    block = (block * 7919 + 31) % 80;
    asked.insert(block);
    ASSERT_THAT(fetcher_->Ensure(object, block, 1, Priority::kReader, InTime()), IsOk());
    fetcher_->NoteRead(object, block * kBlockBytes + 100, 4096);
  }
  EXPECT_LE(static_cast<size_t>(source_.blocks), asked.size() + 8);
}

TEST_F(FetcherTest, AFullCacheIsReadAround) {
  Open({}, /*capacity=*/2 * kBlockBytes);
  const auto object = Add(1, 8 * kBlockBytes);
  EXPECT_THAT(fetcher_->Complete(object, Priority::kReader, InTime()),
              IsError(ErrorCode::kNoSpace));
  source_.DamageNext(1);
  EXPECT_THAT(fetcher_->ReadAround(object, 5, InTime()), IsError(ErrorCode::kCorruption));
  const auto block = fetcher_->ReadAround(object, 5, InTime());
  ASSERT_THAT(block, IsOk());
  EXPECT_TRUE(std::ranges::equal(*block, test::BlockIn(contents_[1], 5)));
}

TEST_F(FetcherTest, StopEndsAllWaits) {
  Open();
  const auto object = Add(1, 8 * kBlockBytes);
  source_.Hold();
  std::jthread reader([&] {
    EXPECT_THAT(fetcher_->Ensure(object, 0, 1, Priority::kReader, InTime()),
                IsError(ErrorCode::kCancelled));
  });
  source_.AwaitInside(1);
  std::jthread stopper([&] { fetcher_->Stop(); });
  reader.join();
  source_.Release();
}

}  // namespace
}  // namespace quadfs::fs
