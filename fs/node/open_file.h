#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cache/block_cache.h"
#include "metadata/types.h"
#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"

namespace quadfs::fs {

/// What tells whether a file on the local disk was changed.
struct FileSignature {
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  bool operator==(const FileSignature&) const = default;
  static FileSignature Of(const struct stat& status);
  static FileSignature OfFd(int fd);
};

/// How the kernel does I/O on an inode; one at a time, until its last handle is closed.
enum class IoMode : uint8_t { kNone, kPassthrough, kCached };

/// A file that is open, or changed here and not published yet; one per nodeid.
///
/// `turn` orders what takes long: opening, publishing, truncating. Its holder may wait for disk and
/// network (bounded by a deadline) and takes no other file's turn, unless it holds the smaller
/// nodeid. Members below it are changed under `turn` and `mutex` together, so either is enough to
/// read them. `mutex` is a leaf.
struct OpenFile {
  OpenFile(uint64_t kernel_nodeid, InodeId of) : nodeid(kernel_nodeid), inode(of) {}

  const uint64_t nodeid;
  const InodeId inode;
  Mutex turn;
  mutable Mutex mutex;

  // Content.
  bool attached = false;         ///< The rest of this group is decided.
  cache::ObjectRef object;       ///< None: never had content, or `store_file` has it.
  UniqueFd store_file;           ///< The campus's store's own file of this version, read only.
  metadata::Attributes version;  ///< The row this content belongs to, or was made from.

  // I/O.
  IoMode mode = IoMode::kNone;
  int backing_id = 0;  ///< 0: not registered with the kernel.
  uint32_t handles = 0, writers = 0;

  // Changes.
  struct Publication {
    Generation generation;
    cache::Manifest manifest;
  };
  bool dirty = false;   ///< `object` is dirty: writers may change it.
  bool forced = false;  ///< Changed in a way that `baseline` does not show (created by truncation).
  bool whole = false;   ///< Nothing of the version it was made from is left.
  bool mappable =
      false;  ///< Was open read-write by passthrough: a mapping may outlive its handles.
  uint32_t writer_uid = 0;     ///< A writer other than root, if any: set-id bits go.
  FileSignature baseline;      ///< When it became dirty or was published last.
  bool baseline_racy = false;  ///< Taken within the clock's grain of the last change.
  std::shared_ptr<const cache::Manifest> base_manifest;  ///< Of `version`, if known.
  std::optional<Publication> pending;                    ///< Asked for, answer unknown.
  std::chrono::steady_clock::time_point published_at{};
  std::chrono::steady_clock::duration reading_time{};  ///< What publishing it costs.

  // After the last name went: attributes live here as long as somebody has it open.
  std::optional<metadata::Attributes> orphan;
  std::map<std::string, std::string> orphan_xattrs;

  /// Descriptor with the content; -1: none. Needs `turn` or `mutex`.
  int ContentFd() const { return store_file ? store_file.get() : object ? object->fd() : -1; }
  /// Whether a writer changed it since `baseline`. Needs `turn` or `mutex`.
  bool Changed() const;
  /// Takes `baseline` now.
  void TakeBaseline();
};

/// What stat shows of an open file beyond its row.
struct FileOverlay {
  bool changed = false;      ///< Size and times are `status`'s.
  bool old_version = false;  ///< Its kernel inode shows `version`, which is not the newest.
  bool restless = false;  ///< The kernel may not keep attributes: they change without its knowing.
  bool local_blocks = false;  ///< status.st_blocks is true.
  struct stat status {};
  metadata::Attributes version;
  uint32_t writer_uid = 0;
  std::optional<metadata::Attributes> orphan;
};
FileOverlay OverlayOf(const OpenFile& file);

}  // namespace quadfs::fs
