#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/index_store.h"
#include "cache/manifest.h"
#include "transport/base/ids.h"
#include "transport/base/result.h"
#include "transport/base/unique_fd.h"

namespace quadfs::cache {

/// Where an object stands in the tree and what ls shows of it.
struct Placement {
  std::string path;  ///< Below the store's root, "datasets/x/a.bin"; its components are checked.
  uint32_t mode = 0644;
  uint32_t uid = 0, gid = 0;
  int64_t mtime_ns = 0;
};

/// An upload under way: blocks arrive in any order, survive a restart, and become a file at Commit.
/// Threads: WriteBlock may be called concurrently.
class Incoming {
 public:
  virtual ~Incoming() = default;
  virtual const Manifest& manifest() const = 0;
  /// Blocks that are not here yet, at most `limit`, ascending.
  virtual std::vector<uint64_t> Missing(size_t limit) const = 0;
  /// Errors: kCorruption (does not match the manifest), kNoSpace, kIo.
  virtual Result<void> WriteBlock(uint64_t index, std::span<const std::byte> block) = 0;
  /// fsync, read back and check every block, set mode, owner and mtime, rename over `placement.path`
  /// (directories are made), fsync the directory. Afterwards the store holds the object.
  /// Errors: kNotFound (blocks are missing), kCorruption, kIo, kNoSpace.
  virtual Result<void> Commit(const Placement& placement) = 0;
  virtual void Abort() = 0;
};

/// A campus's own storage as a plain tree under the files' real names (at main: the archive), that
/// an admin reads with ls and cp. Private parts are below `.quadfs/` in its root.
/// A held file is replaced only by rename, so an open descriptor keeps its version.
/// Every path goes through openat2 with RESOLVE_BENEATH and no symlinks: nothing outside is touched.
/// Threads: every method may be called concurrently.
class TreeStore {
 public:
  static Result<std::unique_ptr<TreeStore>> Open(const std::string& root, IndexStore& index);
  virtual ~TreeStore() = default;

  /// Begins or resumes. Errors: kNoSpace, kIo.
  virtual Result<std::shared_ptr<Incoming>> Begin(const ObjectId& object,
                                                  const Manifest& manifest) = 0;
  /// Holds this version?
  virtual bool Holds(const ObjectId& object) const = 0;
  /// Version held of an inode, if any.
  virtual std::optional<Generation> HeldGeneration(InodeId inode) const = 0;
  /// Path at which the inode is held now. Errors: kNotFound.
  virtual Result<std::string> HeldPath(InodeId inode) const = 0;
  /// Opens for reading; checks that the file is that object. Errors: kNotFound, kStale (somebody
  /// changed it behind our back).
  virtual Result<UniqueFd> OpenObject(const ObjectId& object) const = 0;
  virtual Result<Manifest> ReadManifest(const ObjectId& object) const = 0;
  /// Reads one block and checks it. Errors: kNotFound, kCorruption, kIo.
  virtual Result<std::vector<std::byte>> ReadBlock(const ObjectId& object, uint64_t index) const = 0;

  /// Moves a held file, or the directory tree, to its new path (both below the root).
  virtual Result<void> MoveFile(InodeId inode, const std::string& new_path) = 0;
  /// Renames a directory of the tree if it exists there; all held files below move with it.
  virtual Result<void> MoveDirectory(const std::string& old_path, const std::string& new_path) = 0;
  virtual Result<void> MakeDirectory(const std::string& path, uint32_t mode, uint32_t uid,
                                     uint32_t gid) = 0;
  /// Removes an empty directory; one that is not empty (files of others) stays: kNotEmpty.
  virtual Result<void> RemoveDirectory(const std::string& path) = 0;
  /// Mode, owner, mtime of a held file.
  virtual Result<void> SetAttributes(InodeId inode, const Placement& placement) = 0;
  /// The file goes to `.quadfs/trash/` for a day; PurgeTrash removes what is older.
  virtual Result<void> Remove(InodeId inode) = 0;
  virtual Result<void> PurgeTrash(int64_t older_than_ns) = 0;
};

}  // namespace quadfs::cache
