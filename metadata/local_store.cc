#include "metadata/local_store.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <map>

namespace quadfs::metadata {
namespace {

constexpr char kFormatKey[] = "quadfs.local-store.format";
constexpr char kFormat[] = "1";

rocksdb::Slice ToSlice(std::string_view text) { return {text.data(), text.size()}; }

Error FromStatus(const rocksdb::Status& status, const std::string& what) {
  const std::string message = what + ": " + status.ToString();
  if (status.IsCorruption()) return {ErrorCode::kCorruption, message};
  if (status.IsNoSpace()) return {ErrorCode::kNoSpace, message};
  if (status.IsIOError() && message.find("lock") != std::string::npos) {
    return {ErrorCode::kBusy, message + " (is another quadfsd running on this directory?)"};
  }
  return {ErrorCode::kIo, message};
}

class RocksLocalStore final : public LocalStore {
 public:
  ~RocksLocalStore() override {
    for (auto& [name, handle] : families_) db_->DestroyColumnFamilyHandle(handle);
  }

  Result<void> Init(const std::string& directory, const std::vector<std::string>& families) {
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
    options.max_open_files = 64;
    options.max_total_wal_size = uint64_t{32} << 20;
    options.keep_log_file_num = 2;
    options.max_log_file_size = size_t{1} << 20;

    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(size_t{16} << 20);
    rocksdb::ColumnFamilyOptions family;
    family.write_buffer_size = size_t{8} << 20;
    family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));

    // Families that an earlier version made must be opened too.
    std::vector<std::string> names;
    rocksdb::DB::ListColumnFamilies(options, directory, &names).PermitUncheckedError();
    if (names.empty()) names.emplace_back(rocksdb::kDefaultColumnFamilyName);
    for (const std::string& name : families) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (const std::string& name : names) descriptors.emplace_back(name, family);

    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* db = nullptr;
    if (auto status = rocksdb::DB::Open(options, directory, descriptors, &handles, &db);
        !status.ok()) {
      return FromStatus(status, directory);
    }
    db_.reset(db);
    for (size_t i = 0; i < names.size(); ++i) families_.emplace(names[i], handles[i]);
    return CheckFormat(directory);
  }

  Result<std::string> Get(std::string_view family, std::string_view key) const override {
    rocksdb::ColumnFamilyHandle* handle = QUADFS_TRY(Family(family));
    std::string value;
    const auto status = db_->Get({}, handle, ToSlice(key), &value);
    if (status.IsNotFound()) return Error(ErrorCode::kNotFound, "no such local row");
    if (!status.ok()) return FromStatus(status, "local store read");
    return value;
  }

  Result<void> Put(std::string_view family, std::string_view key, std::string_view value) override {
    rocksdb::ColumnFamilyHandle* handle = QUADFS_TRY(Family(family));
    return Done(db_->Put({}, handle, ToSlice(key), ToSlice(value)));
  }

  Result<void> Erase(std::string_view family, std::string_view key) override {
    rocksdb::ColumnFamilyHandle* handle = QUADFS_TRY(Family(family));
    return Done(db_->Delete({}, handle, ToSlice(key)));
  }

  Result<void> Write(const Batch& batch) override {
    rocksdb::WriteBatch writes;
    for (const Batch::Item& item : batch.items) {
      rocksdb::ColumnFamilyHandle* handle = QUADFS_TRY(Family(item.family));
      const auto status =
          item.erase ? writes.Delete(handle, item.key) : writes.Put(handle, item.key, item.value);
      if (!status.ok()) return FromStatus(status, "local store batch");
    }
    return Done(db_->Write({}, &writes));
  }

  Result<void> Sync() override { return Done(db_->FlushWAL(/*sync=*/true)); }

  Result<void> Scan(
      std::string_view family, std::string_view prefix, std::string_view from,
      const std::function<bool(std::string_view key, std::string_view value)>& row) const override {
    rocksdb::ColumnFamilyHandle* handle = QUADFS_TRY(Family(family));
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}, handle));
    for (at->Seek(ToSlice(std::max(prefix, from))); at->Valid(); at->Next()) {
      const std::string_view key(at->key().data(), at->key().size());
      if (!key.starts_with(prefix)) break;
      if (!row(key, {at->value().data(), at->value().size()})) break;
    }
    return Done(at->status());
  }

 private:
  Result<rocksdb::ColumnFamilyHandle*> Family(std::string_view name) const {
    const auto found = families_.find(name);
    if (found != families_.end()) return found->second;
    return Error(ErrorCode::kInvalidArgument, "no local family " + std::string(name));
  }

  static Result<void> Done(const rocksdb::Status& status) {
    if (!status.ok()) return FromStatus(status, "local store");
    return {};
  }

  Result<void> CheckFormat(const std::string& directory) {
    const auto found = Get(rocksdb::kDefaultColumnFamilyName, kFormatKey);
    if (found.ok() && *found != kFormat) {
      return Error(ErrorCode::kInvalidArgument, directory + ": format " + *found +
                                                    " is newer than this program knows (" +
                                                    kFormat + "): upgrade quadfs");
    }
    if (found.ok()) return {};
    if (found.error().code() != ErrorCode::kNotFound) return found.error();
    return Put(rocksdb::kDefaultColumnFamilyName, kFormatKey, kFormat);
  }

  std::unique_ptr<rocksdb::DB> db_;
  std::map<std::string, rocksdb::ColumnFamilyHandle*, std::less<>> families_;
};

}  // namespace

Result<std::unique_ptr<LocalStore>> LocalStore::Open(const std::string& directory,
                                                     const std::vector<std::string>& families) {
  auto store = std::make_unique<RocksLocalStore>();
  if (auto opened = store->Init(directory, families); !opened.ok()) {
    return std::move(opened).error();
  }
  return std::unique_ptr<LocalStore>(std::move(store));
}

}  // namespace quadfs::metadata
