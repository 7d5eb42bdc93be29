#pragma once

#include <array>
#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/health.h"
#include "cache/tree_directories.h"
#include "cache/tree_path.h"
#include "cache/tree_store.h"
#include "transport/base/mutex.h"

namespace quadfs::cache {

class TreeIncoming;

/// TreeStore on a local or mounted file system.
///
/// Locks, in this order: `structure_` (shared by all that change the tree, alone by what moves or
/// removes directories), the inode's lock (its row and file), then leaves. The first two are held
/// across the disk: they order changes of the tree, not reads of data.
class TreeStoreImpl final : public TreeStore {
 public:
  TreeStoreImpl(UniqueFd root, IndexStore& index);

  /// Before the first use.
  Result<void> Start();

  Result<std::shared_ptr<Incoming>> Begin(const ObjectId& object,
                                          const Manifest& manifest) override;
  bool Holds(const ObjectId& object) const override;
  std::optional<Generation> HeldGeneration(InodeId inode) const override;
  Result<std::string> HeldPath(InodeId inode) const override;
  Result<UniqueFd> OpenObject(const ObjectId& object) const override;
  Result<Manifest> ReadManifest(const ObjectId& object) const override;
  Result<std::vector<std::byte>> ReadBlock(const ObjectId& object, uint64_t index) const override;
  Result<void> MoveFile(InodeId inode, const std::string& new_path) override;
  Result<void> MoveDirectory(const std::string& old_path, const std::string& new_path) override;
  Result<void> MakeDirectory(const std::string& path, uint32_t mode, uint32_t uid,
                             uint32_t gid) override;
  Result<void> RemoveDirectory(const std::string& path) override;
  Result<void> SetAttributes(InodeId inode, const Placement& placement) override;
  Result<void> Remove(InodeId inode) override;
  Result<void> PurgeTrash(int64_t older_than_ns) override;
  Status status() const override;

  // For an upload.
  /// Puts the finished file of `object` at its place. `fd`: of it. The row said so far is `row`.
  Result<void> Adopt(const ObjectId& object, int fd, IncomingRow row, const Manifest& manifest,
                     const TreePath& path);
  /// Sets owner, mode and mtime.
  static Result<void> Apply(int fd, const Placement& placement);
  void Mark(int fd, const ObjectId& object, const Checksum& root) const;
  IndexStore& index() { return index_; }
  int incoming_directory() const { return incoming_.get(); }

 private:
  struct OpenFile {
    UniqueFd fd;
    Manifest manifest;
  };
  using OpenRef = std::shared_ptr<const OpenFile>;
  static constexpr size_t kOpenFiles = 64;
  static constexpr size_t kFewUploads = 256;  ///< From here on ended ones are swept out.
  static constexpr size_t kKnownStale = 4096;

  Mutex& LockFor(InodeId inode) const {
    return locks_[std::hash<InodeId>{}(inode) % locks_.size()];
  }
  Result<HeldRow> Row(InodeId inode) const;
  Result<UniqueFd> DirectoryOf(const Place& place) const;
  Result<UniqueFd> OpenRow(const ObjectId& object, const HeldRow& row) const;
  Result<void> CheckContent(const ObjectId& object, const HeldRow& row, int fd) const;
  Result<Manifest> ManifestOf(const ObjectId& object, const HeldRow& row, int fd) const;
  Result<OpenRef> OpenShared(const ObjectId& object) const;
  void ForgetOpen(const ObjectId& object) const;

  Result<void> WriteManifest(const ObjectId& object, const Manifest& manifest) const;
  void RemoveManifest(const ObjectId& object) const;
  static std::string ManifestName(const ObjectId& object);

  /// Moves what stands at `name` to the trash. Errors: kIsDirectory.
  Result<void> SetAside(int directory, const std::string& name);
  /// Whether a file of `inode` stands there: as it was left, or by its attribute. An inode number
  /// alone proves nothing; disks use them again.
  bool IsFileOf(InodeId inode, const StatSignature& left, int directory,
                const std::string& name) const;
  /// The object a file says it is, by its attribute.
  std::optional<ObjectId> ObjectAt(int directory, const std::string& name) const;
  /// Forgets a row whose file is not `file_inode`'s place any more.
  void ForgetDisplaced(const ObjectId& object, uint64_t file_inode);
  /// Renames to a free name, setting aside what stands there.
  Result<void> RenameAside(int from_directory, const std::string& from, int to_directory,
                           const std::string& to);
  /// The held object that had to make room, if it was one, and its file.
  using Displaced = std::optional<std::pair<ObjectId, uint64_t>>;
  Result<Displaced> PlaceIncoming(const ObjectId& object, int directory, const IncomingRow& row);
  Result<void> ReplaceOwn(const std::string& name, int directory, const std::string& target,
                          const IncomingRow& row);
  /// Deletes an older version; what somebody made of it meanwhile is set aside.
  Result<void> DropOld(int directory, const std::string& name, const StatSignature& left);
  /// The caller holds the inode's lock.
  Result<void> FinishAdopt(const ObjectId& object, const IncomingRow& row);
  Result<void> RenameDirectory(const TreePath& from, const TreePath& to);

  Result<void> FinishDirectoryMoves();
  Result<void> FinishFileMoves();
  Result<void> FinishUploads();
  Result<void> FinishUpload(const ObjectId& object, const std::string& value);
  Result<void> TidyIncoming();
  uint64_t CountForeign() const;

  TreeRoot root_;
  IndexStore& index_;
  TreeDirectories directories_;
  UniqueFd private_, incoming_, manifests_, trash_;  ///< `.quadfs` (locked) and what is in it.
  bool has_attributes_ = false;
  mutable Health health_;
  std::atomic<uint64_t> foreign_files_{0};
  mutable std::atomic<uint64_t> serial_{0};

  mutable std::shared_mutex structure_;
  mutable std::array<Mutex, 256> locks_;
  mutable Mutex incoming_mutex_;
  std::map<ObjectId, std::weak_ptr<TreeIncoming>> uploads_ QUADFS_GUARDED_BY(incoming_mutex_);
  size_t sweep_at_ QUADFS_GUARDED_BY(incoming_mutex_) = kFewUploads;
  mutable Mutex open_mutex_;
  mutable std::list<std::pair<ObjectId, OpenRef>> open_ QUADFS_GUARDED_BY(open_mutex_);
  mutable std::unordered_map<InodeId, StatSignature> stale_ QUADFS_GUARDED_BY(open_mutex_);
};

/// Same file with the same content, as far as stat tells; ctime changes by renames.
bool SameContent(const StatSignature& a, const StatSignature& b);
/// All entries of a directory but "." and "..".
Result<std::vector<std::string>> ListDirectory(int directory);

}  // namespace quadfs::cache
