// Power cuts, damaged rows, wrong indexes: what recovery may believe.
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <random>

#include "cache/object_row.h"
#include "tests/cache/block_cache_fixture.h"

namespace quadfs::cache {
namespace {

using test::BlockOf;
using test::IsError;
using test::IsOk;
using test::RandomBytes;
using testing::HasSubstr;

constexpr size_t kMiB = kBlockBytes;

/// A disk that keeps, over a power cut, what was there at each file's last fdatasync.
class Disk {
 public:
  int Sync(int fd) {
    char path[4096];
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
    if (length <= 0) return EIO;
    const std::string name(path, static_cast<size_t>(length));
    struct stat status {};
    if (::fstat(fd, &status) != 0) return errno;
    Bytes content(static_cast<size_t>(status.st_size));
    if (::pread(fd, content.data(), content.size(), 0) < 0) return errno;
    MutexLock lock(mutex_);
    durable_[name.substr(name.find("/slots/"))] = std::move(content);
    return 0;
  }
  /// Copies the cache directory as the power cut leaves it; never synced files are empty.
  void Cut(const std::string& from, const std::string& to) const {
    std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
    MutexLock lock(mutex_);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(to + "/slots")) {
      if (!entry.is_regular_file()) continue;
      const std::string path = entry.path();
      const auto found = durable_.find(path.substr(path.find("/slots/")));
      test::WriteWhole(path, found == durable_.end() ? Bytes() : found->second);
    }
  }

 private:
  using Bytes = test::Bytes;
  mutable Mutex mutex_;
  std::map<std::string, Bytes> durable_ QUADFS_GUARDED_BY(mutex_);
};

class CrashTest : public BlockCacheTest {
 protected:
  Disk disk_;
};

// Random work, power cut at random moments with random loss of unsynced rows: whatever a row claims
// is on the disk, byte for byte; what was synced is still there.
TEST_F(CrashTest, ARowNeverClaimsMoreThanTheDiskHas) {
  cache_.reset();
  options_.sync_data = [this](int fd) { return disk_.Sync(fd); };
  options_.sync_interval = std::chrono::milliseconds(1);
  Open();
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::map<ObjectId, Bytes> content;
  std::map<InodeId, Bytes> synced_dirty;
  uint64_t next_inode = 1;
  uint64_t claims = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<ObjectRef> open;
    for (int step = 0; step < 6; ++step) {
      const InodeId inode(next_inode++);
      const Bytes bytes = RandomBytes(random() % (2 * kMiB + kMiB / 2) + 1, random());
      switch (random() % 4) {
        case 0:
        case 1: {
          const ObjectId id{inode, Generation(1)};
          content[id] = bytes;
          const ObjectRef object = Begin(id, bytes);
          for (uint64_t i = 0; i < BlockCount(bytes.size()); ++i) {
            if (random() % 4 == 0) continue;
            EXPECT_THAT(Store(object, bytes, i), IsOk());
          }
          if (object->complete() && random() % 2 == 0) {
            ASSERT_THAT(object->MakeDirty(), IsOk());
            const Bytes piece = RandomBytes(10, random());
            ASSERT_EQ(::pwrite(object->fd(), piece.data(), 10, 0), 10);
          }
          open.push_back(object);
          break;
        }
        case 2: {
          const ObjectRef object = Written(inode.value, bytes);
          content[{inode, Generation(5)}] = bytes;
          Seal(object, 5);
          if (random() % 2 == 0) {
            ASSERT_THAT(object->Sync(), IsOk());
          }
          open.push_back(object);
          break;
        }
        default: {
          const ObjectRef object = Written(inode.value, bytes);
          if (random() % 2 == 0) {
            ASSERT_THAT(object->Sync(), IsOk());
            synced_dirty[inode] = bytes;
          }
          open.push_back(object);
        }
      }
    }
    if (random() % 3 == 0) cache_->Flush();

    // First the index, then the data: data may always be newer than rows.
    test::MemIndexStore index(index_.RowsAfterPowerCut(random() % (index_.unsynced() + 1)));
    const std::string cut = directory_.path() + "/cut-" + std::to_string(round);
    disk_.Cut(options_.directory, cut);
    BlockCache::Options options = options_;
    options.directory = cut;
    options.boot_id = "boot-after-" + std::to_string(round);
    options.sync_data = nullptr;
    const auto rows = index.rows();
    auto after = BlockCache::Open(options, index);
    ASSERT_THAT(after, IsOk());
    for (const auto& [id, bytes] : content) {
      const auto stored = rows.find(RowKey::Of(id).Encode());
      const auto found = (*after)->Find(id);
      if (!found.ok()) continue;
      ASSERT_NE(stored, rows.end());
      if (ObjectRow::Decode(stored->second)->Has(ObjectRow::kUnsynced)) {
        ASSERT_THAT((*found)->VerifyIfChanged(), IsOk());  // It must not be trusted unseen.
      }
      const Bytes raw = test::ReadWhole((*found)->path());
      for (uint64_t i = 0; i < BlockCount(bytes.size()); ++i) {
        if (!(*found)->HasBlock(i)) continue;
        ++claims;
        const auto expected = BlockOf(bytes, i);
        ASSERT_GE(raw.size(), i * kMiB + expected.size());
        EXPECT_EQ(std::memcmp(raw.data() + i * kMiB, expected.data(), expected.size()), 0);
      }
    }
    for (const auto& [inode, bytes] : synced_dirty) {
      const auto found = (*after)->FindDirty(inode);
      ASSERT_THAT(found, IsOk()) << inode.value;
      EXPECT_EQ(test::ReadWhole((*found)->path()), bytes);
    }
    after->reset();
    std::filesystem::remove_all(cut);
  }
  EXPECT_GT(claims, 10U);
}

// After MakeDirty a power cut brings back neither the clean row nor a belief in the old content.
TEST_F(CrashTest, OverwrittenContentIsNeverTakenForTheOldVersion) {
  const Bytes content = RandomBytes(2 * kMiB, 1);
  Fill(Id(1), content);
  cache_->Flush();
  ASSERT_THAT((*cache_->Find(Id(1)))->MakeDirty(), IsOk());
  cache_.reset();
  index_.PowerCut(0);
  options_.boot_id = "boot-2";
  Open();
  EXPECT_THAT(cache_->Find(Id(1)), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(cache_->FindDirty(InodeId(1)), IsOk());
}

TEST_F(CrashTest, AnUnsyncedSealOfAnotherBootIsCheckedFirst) {
  const Bytes content = RandomBytes(3 * kMiB, 2);
  cache_.reset();
  options_.sync_data = [this](int fd) { return disk_.Sync(fd); };
  options_.sync_interval = std::chrono::hours(1);
  Open();
  const ObjectRef object = Written(1, content);
  Seal(object, 1);
  test::MemIndexStore index(index_.rows());
  BlockCache::Options options = options_;
  options.directory = directory_.path() + "/cut";
  options.boot_id = "boot-2";
  options.sync_data = nullptr;
  std::filesystem::copy(options_.directory, options.directory,
                        std::filesystem::copy_options::recursive);
  // The middle block did not reach the disk before the power went.
  test::FlipByte(options.directory + object->path().substr(options_.directory.size()), kMiB + 1);
  auto after = BlockCache::Open(options, index);
  ASSERT_THAT(after, IsOk());
  const ObjectRef found = *(*after)->Find(Id(1));
  EXPECT_FALSE(*found->VerifyIfChanged());
  EXPECT_TRUE(found->HasBlock(0));
  EXPECT_FALSE(found->HasBlock(1));
  EXPECT_TRUE(found->unsaved());
}

// ---- Rows

ObjectRow SampleRow() {
  ObjectRow row;
  row.id = {InodeId(7), Generation(9)};
  row.slot = 0x1234;
  row.size_bytes = 3 * kMiB + 1;
  row.flags = ObjectRow::kUnsaved;
  row.last_use = 5;
  for (size_t i = 0; i < 16; ++i) row.root.bytes[i] = static_cast<uint8_t>(i);
  row.present = row.written = BlockBitmap(4);
  row.present.Set(1);
  row.boot_id = "b";
  row.manifest.emplace(4);
  return row;
}

// The row's bytes are on disks: a change of them is a new format version.
TEST(ObjectRowTest, GoldenBytesNeverChange) {
  ObjectRow row = SampleRow();
  row.manifest.reset();
  std::string hex;
  for (const char c : row.Encode()) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  EXPECT_EQ(hex,
            "0104"
            "0700000000000000"
            "0900000000000000"
            "3412000000000000"
            "0100300000000000"
            "0500000000000000"
            "000102030405060708090a0b0c0d0e0f"
            "0000000000000000000000000000000000000000000000000000000000000000"
            "0000000000000000"
            "0302"
            "0162"
            "00"
            "00"
            "4a629b52");
  EXPECT_EQ(RowKey::Of(row.id).Encode(),
            std::string("cache.o.\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x09", 24));
  EXPECT_EQ(RowKey::OfDirty(InodeId(7)).Encode(), std::string("cache.d.\0\0\0\0\0\0\0\x07", 16));
}

TEST(ObjectRowTest, DecodeIsTheInverseAndSeesAnyDamage) {
  const ObjectRow row = SampleRow();
  const std::string good = row.Encode();
  const auto decoded = ObjectRow::Decode(good);
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(decoded->Encode(), good);
  EXPECT_EQ(decoded->present, row.present);
  EXPECT_EQ(decoded->manifest, row.manifest);
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THAT(ObjectRow::Decode(bad), IsError(ErrorCode::kCorruption));
  }
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_THAT(ObjectRow::Decode(good.substr(0, length)), IsError(ErrorCode::kCorruption));
  }
}

TEST(BlockBitmapTest, AnyPatternSurvivesEncoding) {
  std::mt19937_64 random(1);
  for (const uint64_t size : {0, 1, 63, 64, 65, 1000, 80'000}) {
    for (const uint64_t density : {0, 1, 50, 99, 100}) {
      BlockBitmap map(size);
      for (uint64_t i = 0; i < size; ++i) {
        if (random() % 100 < density) map.Set(i);
      }
      RowWriter out;
      map.Encode(out);
      EXPECT_LE(out.bytes().size(), size / 8 + 12);
      RowReader in(out.bytes());
      bool ok = true;
      EXPECT_EQ(BlockBitmap::Decode(in, size, ok), map);
      EXPECT_TRUE(ok);
    }
  }
}

// A clean object whose row is damaged is gone; a file whose row is unreadable is kept aside,
// because it may be somebody's unsaved work.
TEST_F(CrashTest, ADamagedRowLosesNoFile) {
  const Bytes content = RandomBytes(1000, 3);
  ASSERT_THAT(Written(1, content)->Sync(), IsOk());
  Fill(Id(2), content);
  cache_.reset();
  index_.FlipBit(RowKey::OfDirty(InodeId(1)).Encode(), 20);
  Open();
  EXPECT_THAT(cache_->FindDirty(InodeId(1)), IsError(ErrorCode::kNotFound));
  EXPECT_THAT(cache_->Find(Id(2)), IsOk());
  EXPECT_THAT(cache_->status().problem, HasSubstr("/lost"));
  std::vector<std::string> lost;
  for (const auto& entry : std::filesystem::directory_iterator(options_.directory + "/lost")) {
    lost.push_back(entry.path());
  }
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(test::ReadWhole(lost[0]), content);
}

TEST_F(CrashTest, FilesOfAnotherIndexAreSetAside) {
  const Bytes content = RandomBytes(1000, 4);
  Written(1, content);
  cache_.reset();
  test::MemIndexStore fresh;
  auto opened = BlockCache::Open(options_, fresh);
  ASSERT_THAT(opened, IsOk());
  EXPECT_THAT((*opened)->status().problem, HasSubstr("/lost"));
  EXPECT_EQ((*opened)->status().objects, 0U);
}

TEST_F(CrashTest, FilesWithoutRowsAndRowsWithoutFilesGo) {
  const Bytes content = RandomBytes(1000, 5);
  std::string gone;
  {
    const ObjectRef object = Fill(Id(1), content);
    gone = object->path();
  }
  cache_.reset();
  std::filesystem::remove(gone);
  const std::string orphan = options_.directory + "/slots/03/0000000000000f77";
  test::WriteWhole(orphan, content);
  Open();
  EXPECT_THAT(cache_->Find(Id(1)), IsError(ErrorCode::kNotFound));
  EXPECT_FALSE(std::filesystem::exists(orphan));
  EXPECT_EQ(cache_->status().problem, "");
  // A slot number is not used again, even though its file is gone.
  EXPECT_NE(Fill(Id(2), content)->path(), gone);
}

TEST_F(CrashTest, AMissingUnsavedFileIsReported) {
  const Bytes content = RandomBytes(1000, 6);
  std::string path;
  {
    const ObjectRef object = Written(1, content);
    Seal(object, 1);
    ASSERT_THAT(object->Sync(), IsOk());
    path = object->path();
  }
  cache_.reset();
  std::filesystem::remove(path);
  Open();
  EXPECT_THAT(cache_->status().problem, HasSubstr("not yet saved"));
}

TEST_F(CrashTest, ADamagedManifestRowIsFetchedAgain) {
  const Bytes content = RandomBytes(34 * kMiB, 7);
  Fill(Id(1), content);
  cache_.reset();
  for (const auto& [key, value] : index_.rows()) {
    if (key.starts_with(kManifestPrefix)) index_.FlipBit(key, value.size() / 2);
  }
  Open();
  const auto object = cache_->Find(Id(1));
  ASSERT_THAT(object, IsOk());
  EXPECT_EQ((*object)->manifest(), nullptr);
  EXPECT_FALSE((*object)->complete());
  EXPECT_THAT((*object)->ReadBlock(0), IsError(ErrorCode::kNotFound));
  ASSERT_THAT((*object)->SetManifest(Manifest::Of(content)), IsOk());
  EXPECT_TRUE((*object)->complete());
  EXPECT_TRUE(*(*object)->VerifyIfChanged());
}

}  // namespace
}  // namespace quadfs::cache
