// Micro-benchmarks of the cache: quadfs_cache_bench. Not run by ctest.
#include <benchmark/benchmark.h>
#include <fcntl.h>

#include "cache/block_cache.h"
#include "cache/object_row.h"
#include "tests/support/cache_files.h"
#include "tests/support/cache_mem_index.h"

namespace quadfs::cache {
namespace {

void ManifestOfFile(benchmark::State& state) {
  const test::TempDirectory directory;
  const std::string path = directory.path() + "/file";
  const uint64_t size = 256 * kBlockBytes;
  test::WriteWhole(path, test::RandomBytes(size, 1));
  const UniqueFd fd(::open(path.c_str(), O_RDONLY));
  for (auto _ : state) benchmark::DoNotOptimize(Manifest::OfFile(fd.get(), size));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(size));
}
BENCHMARK(ManifestOfFile)->Unit(benchmark::kMillisecond);

void ManifestOfHoles(benchmark::State& state) {
  const test::TempDirectory directory;
  const UniqueFd fd(::open((directory.path() + "/file").c_str(), O_RDWR | O_CREAT, 0600));
  const uint64_t size = 4096 * kBlockBytes;
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) state.SkipWithError("ftruncate");
  for (auto _ : state) benchmark::DoNotOptimize(Manifest::OfFile(fd.get(), size));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(size));
}
BENCHMARK(ManifestOfHoles)->Unit(benchmark::kMillisecond);

std::unique_ptr<BlockCache> OpenCache(const std::string& path, IndexStore& index) {
  BlockCache::Options options;
  options.directory = path;
  options.free_floor_bytes = 0;
  return std::move(BlockCache::Open(options, index)).value();
}

// A new object of `range` bytes: made, manifest set, one block stored, complete.
void StoreSmallObject(benchmark::State& state) {
  const test::TempDirectory directory;
  test::MemIndexStore index;
  const auto cache = OpenCache(directory.path() + "/cache", index);
  const test::Bytes content = test::RandomBytes(static_cast<size_t>(state.range(0)), 2);
  const Manifest manifest = Manifest::Of(content);
  const Checksum root = manifest.Root();
  uint64_t inode = 0;
  for (auto _ : state) {
    const ObjectRef object =
        *cache->FindOrCreate({InodeId(++inode), Generation(1)}, content.size(), root);
    if (!object->SetManifest(manifest).ok() || !object->StoreBlock(0, content).ok() ||
        !object->complete()) {
      state.SkipWithError("store");
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(StoreSmallObject)->Arg(100'000)->Arg(4096)->Unit(benchmark::kMicrosecond);

// A small written file: created, written, sealed.
void SealSmallObject(benchmark::State& state) {
  const test::TempDirectory directory;
  test::MemIndexStore index;
  const auto cache = OpenCache(directory.path() + "/cache", index);
  const test::Bytes content = test::RandomBytes(static_cast<size_t>(state.range(0)), 3);
  uint64_t inode = 0;
  for (auto _ : state) {
    const ObjectRef object = *cache->CreateDirty(InodeId(++inode), Generation());
    if (::pwrite(object->fd(), content.data(), content.size(), 0) < 0) state.SkipWithError("write");
    auto manifest = object->ComputeManifest();
    if (!manifest.ok() || !object->Seal(Generation(1), std::move(manifest).value(), false).ok()) {
      state.SkipWithError("seal");
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(SealSmallObject)->Arg(4096)->Unit(benchmark::kMicrosecond);

void ReadPresentBlock(benchmark::State& state) {
  const test::TempDirectory directory;
  test::MemIndexStore index;
  const auto cache = OpenCache(directory.path() + "/cache", index);
  const test::Bytes content = test::RandomBytes(kBlockBytes, 4);
  const Manifest manifest = Manifest::Of(content);
  const ObjectRef object =
      *cache->FindOrCreate({InodeId(1), Generation(1)}, content.size(), manifest.Root());
  if (!object->SetManifest(manifest).ok() || !object->StoreBlock(0, content).ok()) {
    state.SkipWithError("store");
  }
  for (auto _ : state) benchmark::DoNotOptimize(object->ReadBlock(0));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kBlockBytes));
}
BENCHMARK(ReadPresentBlock)->Unit(benchmark::kMicrosecond);

// The row of an 80 GB object, `range` percent of it present in random places.
void EncodeRow(benchmark::State& state) {
  constexpr uint64_t kBlocks = 80'000;
  ObjectRow row;
  row.size_bytes = kBlocks * kBlockBytes;
  row.present = row.written = BlockBitmap(kBlocks);
  std::mt19937_64 random(5);
  for (uint64_t i = 0; i < kBlocks; ++i) {
    if (random() % 100 < static_cast<uint64_t>(state.range(0))) row.present.Set(i);
  }
  size_t bytes = 0;
  for (auto _ : state) bytes = row.Encode().size();
  state.counters["row_bytes"] = static_cast<double>(bytes);
}
BENCHMARK(EncodeRow)->Arg(0)->Arg(1)->Arg(50)->Arg(100)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quadfs::cache
