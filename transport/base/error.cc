#include "transport/base/error.h"

#include <cerrno>
#include <system_error>

namespace quadfs {

std::string_view ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnknown: return "unknown";
    case ErrorCode::kNotFound: return "not-found";
    case ErrorCode::kExists: return "exists";
    case ErrorCode::kNotDirectory: return "not-a-directory";
    case ErrorCode::kIsDirectory: return "is-a-directory";
    case ErrorCode::kNotEmpty: return "not-empty";
    case ErrorCode::kPermission: return "not-permitted";
    case ErrorCode::kAccess: return "access-denied";
    case ErrorCode::kInvalidArgument: return "invalid-argument";
    case ErrorCode::kNameTooLong: return "name-too-long";
    case ErrorCode::kNoSpace: return "no-space";
    case ErrorCode::kStale: return "stale";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kTimedOut: return "timed-out";
    case ErrorCode::kCorruption: return "corruption";
    case ErrorCode::kIo: return "io-error";
    case ErrorCode::kReadOnly: return "read-only";
    case ErrorCode::kNoAttribute: return "no-attribute";
    case ErrorCode::kTooManyLinks: return "too-many-links";
    case ErrorCode::kWouldBlock: return "would-block";
    case ErrorCode::kInterrupted: return "interrupted";
    case ErrorCode::kBusy: return "busy";
    case ErrorCode::kRange: return "range";
    case ErrorCode::kNotSupported: return "not-supported";
    case ErrorCode::kTooLarge: return "too-large";
    case ErrorCode::kDeadlock: return "deadlock";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kUnauthenticated: return "unauthenticated";
    case ErrorCode::kCrossDevice: return "cross-device";
  }
  return "unknown";
}

ErrorCode ErrorCodeFromNumber(uint32_t number) {
  constexpr auto kFirst = static_cast<uint32_t>(ErrorCode::kUnknown);
  constexpr auto kLast = static_cast<uint32_t>(ErrorCode::kCrossDevice);
  return number >= kFirst && number <= kLast ? static_cast<ErrorCode>(number) : ErrorCode::kUnknown;
}

std::string Error::ToString() const { return std::string(ErrorCodeName(code_)) + ": " + message_; }

namespace {

ErrorCode CodeFromErrno(int errno_value) {
  switch (errno_value) {
    case ENOENT: return ErrorCode::kNotFound;
    case EEXIST: return ErrorCode::kExists;
    case ENOTDIR: return ErrorCode::kNotDirectory;
    case EISDIR: return ErrorCode::kIsDirectory;
    case ENOTEMPTY: return ErrorCode::kNotEmpty;
    case EPERM: return ErrorCode::kPermission;
    case EACCES: return ErrorCode::kAccess;
    case EINVAL: return ErrorCode::kInvalidArgument;
    case ENAMETOOLONG: return ErrorCode::kNameTooLong;
    case ENOSPC:
    case EDQUOT: return ErrorCode::kNoSpace;
    case ESTALE: return ErrorCode::kStale;
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EPIPE: return ErrorCode::kUnavailable;
    case ETIMEDOUT: return ErrorCode::kTimedOut;
    case EROFS: return ErrorCode::kReadOnly;
    case ENODATA: return ErrorCode::kNoAttribute;
    case EMLINK: return ErrorCode::kTooManyLinks;
    case EAGAIN: return ErrorCode::kWouldBlock;
    case EINTR: return ErrorCode::kInterrupted;
    case EBUSY:
    case ETXTBSY: return ErrorCode::kBusy;
    case ERANGE: return ErrorCode::kRange;
    case EOPNOTSUPP:
    case ENOSYS: return ErrorCode::kNotSupported;
    case EFBIG:
    case E2BIG: return ErrorCode::kTooLarge;
    case EDEADLK: return ErrorCode::kDeadlock;
    case EXDEV: return ErrorCode::kCrossDevice;
    default: return ErrorCode::kIo;
  }
}

}  // namespace

Error ErrorFromErrno(int errno_value, std::string_view what) {
  return {CodeFromErrno(errno_value),
          std::string(what) + ": " + std::generic_category().message(errno_value)};
}

}  // namespace quadfs
