#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace quadfs {

/// What went wrong, as far as some caller acts on it. The numbers travel on the wire: frozen.
enum class ErrorCode : uint8_t {
  kUnknown = 1,           ///< Something we have no name for.
  kNotFound = 2,          ///< No such name, inode, block or object.
  kExists = 3,            ///< The name is taken.
  kNotDirectory = 4,      ///< A directory was needed.
  kIsDirectory = 5,       ///< A directory was not wanted.
  kNotEmpty = 6,          ///< The directory has entries.
  kPermission = 7,        ///< Not the owner (EPERM).
  kAccess = 8,            ///< The mode forbids it (EACCES).
  kInvalidArgument = 9,   ///< The caller's mistake.
  kNameTooLong = 10,      ///< A name above 255 bytes.
  kNoSpace = 11,          ///< A disk, a quota or a table is full.
  kStale = 12,            ///< What the caller saw is no longer so: look up again.
  kUnavailable = 13,      ///< The other side cannot be reached: retry with back-off.
  kTimedOut = 14,         ///< The deadline passed; the outcome is unknown.
  kCorruption = 15,       ///< A checksum does not match: repair from a replica.
  kIo = 16,               ///< A local disk failed.
  kReadOnly = 17,         ///< The place takes no changes.
  kNoAttribute = 18,      ///< No such extended attribute (ENODATA).
  kTooManyLinks = 19,     ///< The link count is at its limit.
  kWouldBlock = 20,       ///< A lock is held by somebody else.
  kInterrupted = 21,      ///< A signal ended the wait.
  kBusy = 22,             ///< In use.
  kRange = 23,            ///< A buffer is too small (ERANGE).
  kNotSupported = 24,     ///< This place cannot do it (EOPNOTSUPP).
  kTooLarge = 25,         ///< A message, value or file above its bound.
  kDeadlock = 26,         ///< Waiting for the lock would never end.
  kCancelled = 27,        ///< The asker went away or the daemon stops.
  kUnauthenticated = 28,  ///< The peer's certificate does not allow it.
  kCrossDevice = 29,      ///< Not within one file system (EXDEV).
};

/// Stable lower-case name of a code, such as "not-found", for logs and JSON.
std::string_view ErrorCodeName(ErrorCode code);

/// The code a number from the wire or the disk stands for; kUnknown if none does.
ErrorCode ErrorCodeFromNumber(uint32_t number);

/// A failure: a code for the program and one line for a person. Copyable, immutable but for Within.
class [[nodiscard]] Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  /// The same error with the caller's context before the message: "context: message".
  Error Within(std::string_view context) && {
    message_.insert(0, std::string(context) + ": ");
    return std::move(*this);
  }

  /// "code-name: message".
  std::string ToString() const;

 private:
  ErrorCode code_;
  std::string message_;
};

/// The Error for a failed system call: `errno_value` as left by it, `what` names call and object.
Error ErrorFromErrno(int errno_value, std::string_view what);

}  // namespace quadfs
