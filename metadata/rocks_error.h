#pragma once

#include <rocksdb/status.h>

#include <string>

#include "transport/base/result.h"

namespace quadfs::metadata {

/// The Error for a failed RocksDB call; `what` names call and object.
inline Error RocksError(const rocksdb::Status& status, const std::string& what) {
  const std::string message = what + ": " + status.ToString();
  if (status.IsCorruption()) return Error(ErrorCode::kCorruption, message);
  if (status.IsNoSpace()) return Error(ErrorCode::kNoSpace, message);
  return Error(ErrorCode::kIo, message);
}

/// As RocksError, for the call that opens: tells who else has the directory.
inline Error RocksOpenError(const rocksdb::Status& status, const std::string& directory) {
  Error error = RocksError(status, "open " + directory);
  if (status.IsIOError() && error.message().find("lock") != std::string::npos) {
    return Error(ErrorCode::kBusy,
                 error.message() + "; is another quadfsd running on this directory?");
  }
  return error;
}

inline Result<void> CheckRocks(const rocksdb::Status& status, const std::string& what) {
  if (status.ok()) return {};
  return RocksError(status, what);
}

}  // namespace quadfs::metadata
