#pragma once

#include <string>

#include "metadata/local_store.h"
#include "metadata/view.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace quadfs::fs {

/// Reads whole files of the campus's store where this node mounts it, so that they need not be
/// copied. A file is used only if it is the version asked for, by its content: checked when it is
/// first used, and again when its stat signature is another one.
/// Threads: every method may be called concurrently.
class StoreReader {
 public:
  /// `root`: where the store is mounted; empty: nowhere.
  StoreReader(std::string root, metadata::LocalStore& local);

  bool enabled() const { return static_cast<bool>(root_); }
  /// Opens the version that `row` names, read only. Errors: kNotFound (the store does not have it
  /// as far as this node knows, or it is too large to be checked while somebody waits).
  Result<UniqueFd> Open(const metadata::View& view, CampusId campus,
                        const metadata::Attributes& row) const;

  /// Up to here an unknown file is checked at once: well under a second from a local array.
  static constexpr uint64_t kCheckAtOnceBytes = uint64_t{256} << 20;

 private:
  Result<void> Check(int fd, const metadata::Attributes& row) const;

  metadata::LocalStore& local_;
  UniqueFd root_;
};

}  // namespace quadfs::fs
