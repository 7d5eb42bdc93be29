#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "metadata/local_store.h"
#include "metadata/types.h"
#include "transport/base/ids.h"
#include "transport/base/result.h"

namespace quadfs::fs {

/// Where something stands in the campus's store, and what was set on it there.
struct StoreRecord {
  bool directory = false;
  InodeId parent;
  std::string name;
  Generation generation;  ///< Of a file: the version that is, or is about to be, there.
  uint32_t mode = 0, uid = 0, gid = 0;
  int64_t mtime_ns = 0;
  bool operator==(const StoreRecord&) const = default;
};

/// What stands where in the campus's store, by inode: on disk, so that after a crash or a time
/// without contact the store can be brought to what the namespace says. Written before a file gets
/// its place, so a record without a file is possible, a file without a record is not.
///
/// Rows of family "hub": "e" inode 8 → version 1, type 1, parent 8, generation 8, mode 4, uid 4,
/// gid 4, mtime 8, name; "n" parent 8 name → inode 8. Big-endian.
/// Threads: every method may be called concurrently.
class StoreRecords {
 public:
  explicit StoreRecords(metadata::LocalStore& local) : local_(local) {}

  /// Nothing: none. Errors: kIo, kCorruption.
  Result<std::optional<StoreRecord>> Find(InodeId inode) const;
  /// Who stands at that name, if anybody.
  Result<std::optional<InodeId>> At(InodeId parent, const std::string& name) const;
  /// Writes it, and takes away its claim on the name it had before.
  Result<void> Put(InodeId inode, const StoreRecord& record);
  Result<void> Erase(InodeId inode);
  Result<std::vector<InodeId>> Children(InodeId parent) const;
  /// Every inode with a record; stops when `row` returns false.
  Result<void> ForEach(const std::function<bool(InodeId, const StoreRecord&)>& row) const;
  /// Path below the store's root by records; nothing if a directory on the way has none.
  Result<std::optional<std::string>> PathOf(InodeId inode) const;

 private:
  metadata::LocalStore& local_;
};

}  // namespace quadfs::fs
