#include "fs/errno_map.h"

#include <cerrno>

namespace quadfs::fs {

int ErrnoOf(ErrorCode code) {
  switch (code) {  // No default: a new code warns here.
    case ErrorCode::kUnknown: return EIO;
    case ErrorCode::kNotFound: return ENOENT;
    case ErrorCode::kExists: return EEXIST;
    case ErrorCode::kNotDirectory: return ENOTDIR;
    case ErrorCode::kIsDirectory: return EISDIR;
    case ErrorCode::kNotEmpty: return ENOTEMPTY;
    case ErrorCode::kPermission: return EPERM;
    case ErrorCode::kAccess: return EACCES;
    case ErrorCode::kInvalidArgument: return EINVAL;
    case ErrorCode::kNameTooLong: return ENAMETOOLONG;
    case ErrorCode::kNoSpace: return ENOSPC;
    case ErrorCode::kStale: return ESTALE;
    case ErrorCode::kUnavailable: return EIO;
    case ErrorCode::kTimedOut: return EIO;
    case ErrorCode::kCorruption: return EIO;
    case ErrorCode::kIo: return EIO;
    case ErrorCode::kReadOnly: return EROFS;
    case ErrorCode::kNoAttribute: return ENODATA;
    case ErrorCode::kTooManyLinks: return EMLINK;
    case ErrorCode::kWouldBlock: return EAGAIN;
    case ErrorCode::kInterrupted: return EINTR;
    case ErrorCode::kBusy: return EBUSY;
    case ErrorCode::kRange: return ERANGE;
    case ErrorCode::kNotSupported: return EOPNOTSUPP;
    case ErrorCode::kTooLarge: return E2BIG;
    case ErrorCode::kDeadlock: return EDEADLK;
    case ErrorCode::kCancelled: return EINTR;
    case ErrorCode::kUnauthenticated: return EIO;
    case ErrorCode::kCrossDevice: return EXDEV;
  }
  return EIO;
}

}  // namespace quadfs::fs
