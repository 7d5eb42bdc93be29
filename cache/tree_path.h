#pragma once

#include <string>
#include <vector>

#include "cache/file_io.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace quadfs::cache {

/// The store's private directory in its root.
inline constexpr char kPrivateDirectory[] = ".quadfs";

/// A checked path below the store's root: its directories and its last name.
struct TreePath {
  std::vector<std::string> directories;
  std::string name;

  /// Errors: kInvalidArgument, kNameTooLong.
  static Result<TreePath> Parse(const std::string& path);
  std::vector<std::string> All() const;
};

/// Opens things below one directory with openat2, never leaving it and never following a symbolic
/// link. It knows names, not what they mean. Threads: every method may be called concurrently.
class TreeRoot {
 public:
  explicit TreeRoot(UniqueFd root) : root_(std::move(root)) {}
  int fd() const { return root_.get(); }

  /// Errors: kNotFound, kNotDirectory, kPermission (a link in the way), kIo.
  Result<UniqueFd> OpenDirectory(const std::vector<std::string>& components) const;
  /// The same; what is missing is made with mode 0755.
  Result<UniqueFd> MakeDirectories(const std::vector<std::string>& components) const;
  /// `flags`: as of open. Errors: as OpenDirectory.
  static Result<UniqueFd> OpenBelow(int directory, const std::string& name, int flags);

 private:
  UniqueFd root_;
};

/// stat of `name` in `directory`, not following a link. Errors: kNotFound, kIo.
Result<struct stat> StatAt(int directory, const std::string& name);
/// fsync, with the failure as Error.
Result<void> SyncFile(int fd, const std::string& what);

}  // namespace quadfs::cache
