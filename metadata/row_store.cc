#include "metadata/row_store.h"

#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "metadata/rocks_error.h"

namespace quadfs::metadata {
namespace {

using rocksdb::ColumnFamilyHandle;
using rocksdb::Slice;

Slice SliceOf(std::string_view text) { return Slice(text.data(), text.size()); }
std::string_view ViewOf(const Slice& slice) { return std::string_view(slice.data(), slice.size()); }

// Key inside its column family.
Slice InFamily(std::string_view key) { return SliceOf(key.substr(1)); }

// Families whose rows are mostly sought with a common first number.
bool HasPrefix(Family family) {
  return family == Family::kDentry || family == Family::kLinks || family == Family::kXattr ||
         family == Family::kWant;
}

rocksdb::CompressionType FirstOf(std::initializer_list<rocksdb::CompressionType> wanted) {
  const auto supported = rocksdb::GetSupportedCompressions();
  for (const auto type : wanted) {
    if (std::find(supported.begin(), supported.end(), type) != supported.end()) return type;
  }
  return rocksdb::kNoCompression;
}

rocksdb::ColumnFamilyOptions FamilyOptions(Family family, const RowStore::Options& options,
                                           const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions result;
  result.write_buffer_size = options.memtable_bytes;
  result.max_write_buffer_number = 3;
  result.target_file_size_base = uint64_t{32} << 20;
  result.level_compaction_dynamic_level_bytes = true;
  result.compression = FirstOf({rocksdb::kLZ4Compression, rocksdb::kSnappyCompression});
  result.bottommost_compression = FirstOf({rocksdb::kZSTD, rocksdb::kLZ4Compression});

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.block_size = size_t{8} << 10;
  table.cache_index_and_filter_blocks = true;  // Or they would escape the cache's bound.
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  const bool is_log =
      family == Family::kLog || family == Family::kView || family == Family::kPending;
  if (is_log) {
    table.block_size = size_t{16} << 10;
  } else {
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, false));
    table.whole_key_filtering = true;
    table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  }
  if (HasPrefix(family)) {
    result.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(8));
    result.memtable_prefix_bloom_size_ratio = 0.02;
    result.memtable_whole_key_filtering = true;
  }
  result.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return result;
}

rocksdb::DBOptions DatabaseOptions(const RowStore::Options& options) {
  rocksdb::DBOptions result;
  result.create_if_missing = true;
  result.create_missing_column_families = true;
  result.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  result.max_open_files = options.max_open_files;
  result.max_background_jobs = options.background_jobs;
  result.db_write_buffer_size = options.memtables_bytes;
  result.max_total_wal_size = options.memtables_bytes * 4;
  result.bytes_per_sync = uint64_t{1} << 20;
  result.wal_bytes_per_sync = 0;
  result.keep_log_file_num = 4;
  result.max_log_file_size = size_t{8} << 20;
  result.max_manifest_file_size = size_t{64} << 20;
  result.info_log_level = rocksdb::WARN_LEVEL;
  return result;
}

constexpr std::string_view kFormatName = "format";
constexpr std::string_view kClusterName = "cluster";

class Cursor final : public RowCursor {
 public:
  explicit Cursor(std::unique_ptr<rocksdb::Iterator> iterator) : iterator_(std::move(iterator)) {}
  void Seek(std::string_view key) override { iterator_->Seek(SliceOf(key)); }
  void Next() override { iterator_->Next(); }
  bool valid() const override { return iterator_->Valid(); }
  std::string_view key() const override { return ViewOf(iterator_->key()); }
  std::string_view value() const override { return ViewOf(iterator_->value()); }
  Result<void> status() const override { return CheckRocks(iterator_->status(), "iterate"); }

 private:
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

// Reads of a store, at a snapshot or at the newest state.
class Reads {
 public:
  Reads(rocksdb::DB* database, const std::map<Family, ColumnFamilyHandle*>& families,
        const rocksdb::Snapshot* snapshot)
      : database_(database), families_(families), snapshot_(snapshot) {}

  Result<std::optional<std::string>> Read(const RowKey& key) const {
    ColumnFamilyHandle* family = QUADFS_TRY(Find(key));
    std::string value;
    const rocksdb::Status status = database_->Get(Options(), family, InFamily(key), &value);
    if (status.IsNotFound()) return std::optional<std::string>();
    if (!status.ok()) return RocksError(status, "read a row");
    return std::optional<std::string>(std::move(value));
  }

  Result<void> Scan(const RowKey& prefix, const RowKey& from,
                    const RowReader::RowCallback& row) const {
    ColumnFamilyHandle* family = QUADFS_TRY(Find(prefix));
    const std::string end = AfterPrefix(std::string_view(prefix).substr(1));
    const Slice bound(end);
    rocksdb::ReadOptions options = Options();
    if (!end.empty()) options.iterate_upper_bound = &bound;
    // A whole number in front: RocksDB may use its prefix filter; else it must not.
    if (prefix.size() >= 9) {
      options.prefix_same_as_start = true;
    } else {
      options.total_order_seek = true;
    }
    const std::unique_ptr<rocksdb::Iterator> iterator(database_->NewIterator(options, family));
    std::string whole(1, prefix.front());
    for (iterator->Seek(InFamily(from > prefix ? from : prefix)); iterator->Valid();
         iterator->Next()) {
      whole.resize(1);
      whole.append(iterator->key().data(), iterator->key().size());
      if (!whole.starts_with(prefix) || !row(whole, ViewOf(iterator->value()))) break;
    }
    return CheckRocks(iterator->status(), "scan rows");
  }

  std::unique_ptr<RowCursor> NewCursor(Family family, bool one_directory) const {
    rocksdb::ReadOptions options = Options();
    options.total_order_seek = !(one_directory && HasPrefix(family));
    options.prefix_same_as_start = !options.total_order_seek;
    return std::make_unique<Cursor>(
        std::unique_ptr<rocksdb::Iterator>(database_->NewIterator(options, families_.at(family))));
  }

  Result<std::vector<std::optional<std::string>>> ReadMany(const std::vector<RowKey>& keys) const {
    std::vector<ColumnFamilyHandle*> handles;
    std::vector<Slice> slices;
    for (const RowKey& key : keys) {
      handles.push_back(QUADFS_TRY(Find(key)));
      slices.push_back(InFamily(key));
    }
    std::vector<std::string> values;
    const auto statuses = database_->MultiGet(Options(), handles, slices, &values);
    std::vector<std::optional<std::string>> result(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i].ok()) {
        result[i] = std::move(values[i]);
      } else if (!statuses[i].IsNotFound()) {
        return RocksError(statuses[i], "read rows");
      }
    }
    return result;
  }

  Result<ColumnFamilyHandle*> Find(std::string_view key) const {
    const auto family = FamilyOf(key);
    if (!family) return Error(ErrorCode::kInvalidArgument, "row key names no family");
    return families_.at(*family);
  }

 private:
  rocksdb::ReadOptions Options() const {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot_;
    return options;
  }

  rocksdb::DB* database_;
  const std::map<Family, ColumnFamilyHandle*>& families_;
  const rocksdb::Snapshot* snapshot_;
};

class SnapshotReader final : public RowSnapshot {
 public:
  SnapshotReader(rocksdb::DB* database, const std::map<Family, ColumnFamilyHandle*>& families)
      : database_(database),
        snapshot_(database->GetSnapshot()),
        reads_(database, families, snapshot_) {}
  ~SnapshotReader() override { database_->ReleaseSnapshot(snapshot_); }
  SnapshotReader(const SnapshotReader&) = delete;
  SnapshotReader& operator=(const SnapshotReader&) = delete;

  Result<std::optional<std::string>> Read(const RowKey& key) const override {
    return reads_.Read(key);
  }
  Result<void> ScanPrefix(const RowKey& prefix, const RowKey& from,
                          const RowCallback& row) const override {
    return reads_.Scan(prefix, from, row);
  }
  std::unique_ptr<RowCursor> NewCursor(Family family, bool one_directory) const override {
    return reads_.NewCursor(family, one_directory);
  }
  Result<std::vector<std::optional<std::string>>> ReadMany(
      const std::vector<RowKey>& keys) const override {
    return reads_.ReadMany(keys);
  }

 private:
  rocksdb::DB* database_;
  const rocksdb::Snapshot* snapshot_;
  Reads reads_;
};

class SstIngest final : public RowIngest {
 public:
  SstIngest(rocksdb::DB* database, ColumnFamilyHandle* family, Family number, std::string path)
      : database_(database),
        family_(family),
        number_(number),
        path_(std::move(path)),
        writer_(rocksdb::EnvOptions(), database->GetOptions(family), family) {}
  ~SstIngest() override {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  Result<void> Open() { return CheckRocks(writer_.Open(path_), "create " + path_); }

  Result<void> Add(std::string_view key, std::string_view value) override {
    if (FamilyOf(key) != number_ || (count_ > 0 && key <= last_)) {
      return Error(ErrorCode::kInvalidArgument, "rows to ingest are not of one family and sorted");
    }
    last_ = key;
    ++count_;
    return CheckRocks(writer_.Put(InFamily(key), SliceOf(value)), "write " + path_);
  }

  Result<void> Finish() override {
    if (count_ == 0) return {};  // RocksDB refuses a file without rows.
    QUADFS_TRY(CheckRocks(writer_.Finish(), "finish " + path_));
    rocksdb::IngestExternalFileOptions options;
    options.move_files = true;
    options.snapshot_consistency = false;
    return CheckRocks(database_->IngestExternalFile(family_, {path_}, options), "ingest " + path_);
  }

 private:
  rocksdb::DB* database_;
  ColumnFamilyHandle* family_;
  Family number_;
  std::string path_;
  rocksdb::SstFileWriter writer_;
  std::string last_;
  uint64_t count_ = 0;
};

class RocksRowStore final : public RowStore {
 public:
  RocksRowStore(std::string directory, std::unique_ptr<rocksdb::DB> database,
                const std::vector<ColumnFamilyHandle*>& handles)
      : directory_(std::move(directory)), database_(std::move(database)), handles_(handles) {
    for (ColumnFamilyHandle* handle : handles_) {
      for (const Family family : kAllFamilies) {
        if (handle->GetName() == FamilyName(family)) families_.emplace(family, handle);
      }
    }
  }

  ~RocksRowStore() override {
    for (ColumnFamilyHandle* handle : handles_) database_->DestroyColumnFamilyHandle(handle);
    database_->Close();
  }
  RocksRowStore(const RocksRowStore&) = delete;
  RocksRowStore& operator=(const RocksRowStore&) = delete;

  Result<std::optional<std::string>> Read(const RowKey& key) const override {
    return reads_.Read(key);
  }
  Result<void> ScanPrefix(const RowKey& prefix, const RowKey& from,
                          const RowCallback& row) const override {
    return reads_.Scan(prefix, from, row);
  }

  Result<void> Write(const std::vector<RowChange>& changes, bool sync) override {
    rocksdb::WriteBatch batch;
    for (const RowChange& change : changes) {
      ColumnFamilyHandle* family = QUADFS_TRY(reads_.Find(change.key));
      const rocksdb::Status status = change.value
                                         ? batch.Put(family, InFamily(change.key), *change.value)
                                         : batch.Delete(family, InFamily(change.key));
      QUADFS_TRY(CheckRocks(status, "collect a write"));
    }
    rocksdb::WriteOptions options;
    options.sync = sync;
    return CheckRocks(database_->Write(options, &batch), "write rows");
  }

  Result<void> SyncLog() override { return CheckRocks(database_->SyncWAL(), "sync the log"); }

  Result<void> EraseRange(Family family, const RowKey& from, const RowKey& to) override {
    if (FamilyOf(from) != family || FamilyOf(to) != family || to < from) {
      return Error(ErrorCode::kInvalidArgument, "range to erase is not within its family");
    }
    return CheckRocks(database_->DeleteRange(rocksdb::WriteOptions(), families_.at(family),
                                             InFamily(from), InFamily(to)),
                      "erase rows");
  }

  std::unique_ptr<RowSnapshot> Snapshot() const override {
    return std::make_unique<SnapshotReader>(database_.get(), families_);
  }

  Result<std::unique_ptr<RowIngest>> NewIngest(Family family) override {
    auto ingest = std::make_unique<SstIngest>(
        database_.get(), families_.at(family), family,
        directory_ + "/ingest-" + std::string(FamilyName(family)) + ".sst");
    QUADFS_TRY(ingest->Open());
    return std::unique_ptr<RowIngest>(std::move(ingest));
  }

  uint64_t ApproximateBytes(Family family, const RowKey& from, const RowKey& to) const override {
    const rocksdb::Range range(InFamily(from), InFamily(to));
    rocksdb::SizeApproximationOptions options;
    options.include_memtables = true;
    uint64_t bytes = 0;
    const auto status =
        database_->GetApproximateSizes(options, families_.at(family), &range, 1, &bytes);
    return status.ok() ? bytes : 0;
  }

  // First open: writes format and cluster. Later: compares them.
  Result<void> CheckIdentity(const Options& options) {
    const auto format = QUADFS_TRY(Read(MetaKey(kFormatName)));
    const auto cluster = QUADFS_TRY(Read(MetaKey(kClusterName)));
    if (!format) {
      return Write({{MetaKey(kFormatName), std::to_string(kFormatVersion)},
                    {MetaKey(kClusterName), options.cluster}},
                   true);
    }
    if (*format != std::to_string(kFormatVersion)) {
      return Error(ErrorCode::kInvalidArgument,
                   directory_ + ": database has format " + *format + ", this program knows " +
                       std::to_string(kFormatVersion) + "; install a quadfs that knows it");
    }
    if (cluster != options.cluster) {
      return Error(ErrorCode::kInvalidArgument, directory_ + ": database belongs to cluster \"" +
                                                    cluster.value_or("") + "\", not \"" +
                                                    options.cluster + "\"; give another state_dir");
    }
    return {};
  }

 private:
  std::string directory_;
  std::unique_ptr<rocksdb::DB> database_;
  std::vector<ColumnFamilyHandle*> handles_;
  std::map<Family, ColumnFamilyHandle*> families_;
  Reads reads_{database_.get(), families_, nullptr};
};

}  // namespace

Result<std::unique_ptr<RowStore>> RowStore::Open(const std::string& directory,
                                                 const Options& options) {
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) return ErrorFromErrno(failure.value(), "create " + directory);
  const auto cache = rocksdb::NewLRUCache(options.block_cache_bytes);
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  descriptors.emplace_back(rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions());
  for (const Family family : kAllFamilies) {
    descriptors.emplace_back(std::string(FamilyName(family)),
                             FamilyOptions(family, options, cache));
  }
  // Column families of a newer format would make RocksDB refuse; our own message is clearer.
  std::vector<std::string> present;
  if (rocksdb::DB::ListColumnFamilies(rocksdb::DBOptions(), directory, &present).ok()) {
    for (const std::string& name : present) {
      const bool known = std::any_of(descriptors.begin(), descriptors.end(),
                                     [&](const auto& one) { return one.name == name; });
      if (!known) {
        return Error(ErrorCode::kInvalidArgument,
                     directory + ": database has a family \"" + name +
                         "\" of a newer format; install a quadfs that knows it");
      }
    }
  }
  rocksdb::DB* database = nullptr;
  std::vector<ColumnFamilyHandle*> handles;
  const rocksdb::Status status =
      rocksdb::DB::Open(DatabaseOptions(options), directory, descriptors, &handles, &database);
  if (!status.ok()) return RocksOpenError(status, directory);
  auto store =
      std::make_unique<RocksRowStore>(directory, std::unique_ptr<rocksdb::DB>(database), handles);
  QUADFS_TRY(store->CheckIdentity(options));
  return std::unique_ptr<RowStore>(std::move(store));
}

}  // namespace quadfs::metadata
