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
/// What a crash may cost is the last 64 blocks. Threads: every method may be called concurrently.
/// Lifetime: the store outlives it.
class Incoming {
 public:
  virtual ~Incoming() = default;
  virtual const Manifest& manifest() const = 0;
  /// Blocks that are not here yet, at most `limit`, ascending.
  virtual std::vector<uint64_t> Missing(size_t limit) const = 0;
  /// Errors: kCorruption (does not match the manifest), kInvalidArgument (no such block), kNoSpace
  /// (make room and repeat; what arrived stays), kIo, kStale (committed or aborted meanwhile).
  virtual Result<void> WriteBlock(uint64_t index, std::span<const std::byte> block) = 0;
  /// Sets mode, owner and mtime, fsync, reads back and checks every block, renames over
  /// `placement.path` (directories are made), fsync of the directory. Afterwards the store holds
  /// the object, durably, and an older version of the inode is gone, wherever it stood. Errors:
  /// kNotFound (blocks are missing), kCorruption (read back wrong; those are missing now: send them
  /// again), kInvalidArgument (path), kNotDirectory, kIsDirectory (a directory stands there),
  /// kPermission (a symbolic link stands in the way), kIo, kNoSpace.
  virtual Result<void> Commit(const Placement& placement) = 0;
  /// Forgets what arrived.
  virtual void Abort() = 0;
};

/// A campus's own storage as a plain tree under the files' real names (at main: the archive), that
/// an admin reads with ls and cp. Private parts are below `.quadfs/` in its root.
/// A held file is replaced only by rename, so an open descriptor keeps its version. It carries the
/// extended attribute `user.quadfs.object` (object name and root), where the disk has such.
/// Every path goes through openat2 with RESOLVE_BENEATH and no symlinks: nothing outside is
/// touched. Paths are relative, of components without "", "." and "..", not below `.quadfs`; a name
/// may have 255 bytes (else kInvalidArgument, kNameTooLong). A file that stands at a target and is
/// not the same inode is never overwritten: it moves to
/// `.quadfs/trash/`. If it is no held object it is *foreign*: its name there begins with
/// "foreign.", it counts in status(), and no purge removes it; that is the admin's to do. Threads:
/// every method may be called concurrently. A change is durable when its call returns.
class TreeStore {
 public:
  struct Status {
    uint64_t foreign_files = 0;  ///< Set aside in the trash, waiting for the admin.
    std::string problem;         ///< Empty if well.
  };

  /// Takes up what a crash left half-way. Errors: kBusy (another process has the store), kIo.
  static Result<std::unique_ptr<TreeStore>> Open(const std::string& root, IndexStore& index);
  virtual ~TreeStore() = default;

  /// Begins or resumes; two callers share one upload. Errors: kExists (the store holds it already),
  /// kNoSpace, kIo.
  virtual Result<std::shared_ptr<Incoming>> Begin(const ObjectId& object,
                                                  const Manifest& manifest) = 0;
  /// Holds this version?
  virtual bool Holds(const ObjectId& object) const = 0;
  /// Version held of an inode, if any.
  virtual std::optional<Generation> HeldGeneration(InodeId inode) const = 0;
  /// Path at which the inode is held now. Errors: kNotFound.
  virtual Result<std::string> HeldPath(InodeId inode) const = 0;
  /// Opens for reading; checks that the file is that object: by its stat signature, and if that
  /// changed (a touch, a restored copy) by its content. Errors: kNotFound, kStale (somebody changed
  /// or removed it behind our back).
  virtual Result<UniqueFd> OpenObject(const ObjectId& object) const = 0;
  virtual Result<Manifest> ReadManifest(const ObjectId& object) const = 0;
  /// Reads one block and checks it. Errors: kNotFound, kCorruption, kIo.
  virtual Result<std::vector<std::byte>> ReadBlock(const ObjectId& object,
                                                   uint64_t index) const = 0;

  /// Moves a held file to its new path. Errors: kNotFound, kStale (not at its place), those of a
  /// path.
  virtual Result<void> MoveFile(InodeId inode, const std::string& new_path) = 0;
  /// Renames a directory of the tree if it exists there (else nothing is to be done); all held
  /// files below move with it, in one rename. Errors: kNotEmpty (the new path is a directory with
  /// entries: move the files one by one), kInvalidArgument (into itself), kNotDirectory.
  virtual Result<void> MoveDirectory(const std::string& old_path, const std::string& new_path) = 0;
  /// With its parents; of one that exists, sets mode and owner.
  virtual Result<void> MakeDirectory(const std::string& path, uint32_t mode, uint32_t uid,
                                     uint32_t gid) = 0;
  /// Removes an empty directory; one that is not empty (files of others) stays: kNotEmpty. Absent:
  /// ok.
  virtual Result<void> RemoveDirectory(const std::string& path) = 0;
  /// Mode, owner, mtime of a held file.
  virtual Result<void> SetAttributes(InodeId inode, const Placement& placement) = 0;
  /// The file goes to `.quadfs/trash/` until PurgeTrash. Not held: nothing is to be done.
  virtual Result<void> Remove(InodeId inode) = 0;
  /// Deletes what went to the trash, and abandoned uploads untouched, before that time (ns of
  /// 1970).
  virtual Result<void> PurgeTrash(int64_t older_than_ns) = 0;
  virtual Status status() const = 0;
};

}  // namespace quadfs::cache
