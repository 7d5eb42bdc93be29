#include "fs/node/rows.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <map>
#include <vector>

namespace quadfs::fs {
namespace {

using metadata::Attributes;
using metadata::FileType;

constexpr blksize_t kPreferredIoBytes = 65536;

mode_t TypeBits(FileType type) {
  switch (type) {
    case FileType::kRegular: return S_IFREG;
    case FileType::kDirectory: return S_IFDIR;
    case FileType::kSymlink: return S_IFLNK;
    case FileType::kFifo: return S_IFIFO;
    case FileType::kSocket: return S_IFSOCK;
    case FileType::kCharacterDevice: return S_IFCHR;
    case FileType::kBlockDevice: return S_IFBLK;
  }
  return 0;
}

struct timespec TimeOf(int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  int64_t seconds = ns / kSecond;
  if (ns % kSecond < 0) --seconds;
  return {.tv_sec = seconds, .tv_nsec = ns - seconds * kSecond};
}

bool Later(const struct timespec& a, const struct timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

}  // namespace

mode_t WithoutSetId(mode_t mode) {
  mode &= ~static_cast<mode_t>(S_ISUID);
  if ((mode & S_IXGRP) != 0) mode &= ~static_cast<mode_t>(S_ISGID);
  return mode;
}

Result<Attributes> RowOf(MountCore& core, OpenFile& file) {
  {
    const MutexLock lock(file.mutex);
    if (file.orphan) return *file.orphan;
  }
  auto row = core.view().Get(file.inode);
  if (row.ok() && row->nlink == 0) {
    std::map<std::string, std::string> xattrs;
    if (row->has_xattr) {
      const std::vector<std::string> names = QUADFS_TRY(core.view().ListXattr(row->inode));
      for (const std::string& name : names) {
        auto value = core.view().GetXattr(row->inode, name);
        if (value.ok()) xattrs.emplace(name, *std::move(value));
      }
    }
    const MutexLock lock(file.mutex);
    if (file.handles > 0 && !file.orphan) {
      file.orphan = *row;
      file.orphan->has_xattr = false;
      file.orphan_xattrs = std::move(xattrs);
    }
  }
  return row;
}

Result<Attributes> RowOf(MountCore& core, uint64_t nodeid) {
  if (const FileTable::Ref file = core.files.Find(nodeid)) return RowOf(core, *file);
  return core.view().Get(core.inodes.InodeOf(nodeid));
}

ShownStat StatOf(const Attributes& row, const FileOverlay* overlay) {
  ShownStat shown;
  struct stat& status = shown.status;
  status.st_ino = row.inode.value;
  status.st_mode = TypeBits(row.type) | row.mode;
  status.st_nlink = row.nlink;
  status.st_uid = row.uid;
  status.st_gid = row.gid;
  status.st_rdev = row.rdev;
  status.st_size = static_cast<off_t>(row.size);
  status.st_blocks = static_cast<blkcnt_t>((row.size + 511) / 512);
  status.st_blksize = kPreferredIoBytes;
  status.st_atim = TimeOf(row.atime_ns);
  status.st_mtim = TimeOf(row.mtime_ns);
  status.st_ctim = TimeOf(row.ctime_ns);
  if (row.type == FileType::kDirectory) status.st_blocks = 8;
  if (row.type == FileType::kSymlink) status.st_blocks = 0;
  if (overlay == nullptr) return shown;
  shown.keep = !overlay->restless;
  if (overlay->local_blocks) status.st_blocks = overlay->status.st_blocks;
  if (overlay->changed) {
    status.st_size = overlay->status.st_size;
    status.st_mtim = overlay->status.st_mtim;
    if (Later(overlay->status.st_ctim, status.st_ctim)) status.st_ctim = overlay->status.st_ctim;
    if (overlay->writer_uid != 0) status.st_mode = WithoutSetId(status.st_mode);
  } else if (overlay->old_version) {
    status.st_size = static_cast<off_t>(overlay->version.size);
    status.st_mtim = TimeOf(overlay->version.mtime_ns);
  }
  return shown;
}

Result<ShownStat> StatOf(MountCore& core, uint64_t nodeid) {
  const FileTable::Ref file = core.files.Find(nodeid);
  if (!file) {
    const Attributes row = QUADFS_TRY(core.view().Get(core.inodes.InodeOf(nodeid)));
    // Opened or changed between the two reads? Then what it knows counts.
    if (!core.files.Find(nodeid)) return StatOf(row, nullptr);
    return StatOf(core, nodeid);
  }
  // The overlay first: once a file is published, its row says at least as much.
  FileOverlay overlay = OverlayOf(*file);
  overlay.old_version = core.inodes.superseded(nodeid) && !overlay.changed;
  const Attributes row = QUADFS_TRY(RowOf(core, *file));
  return StatOf(row, &overlay);
}

fuse_entry_param EntryOf(MountCore& core, const Attributes& row) {
  fuse_entry_param entry{};
  entry.ino = core.inodes.Remember(row.inode);
  ShownStat shown;
  const FileTable::Ref file =
      row.type == FileType::kRegular ? core.files.Find(entry.ino) : FileTable::Ref();
  if (file) {
    FileOverlay overlay = OverlayOf(*file);
    const auto newer = core.view().Get(row.inode);  // Read after the overlay.
    shown = StatOf(newer.ok() ? *newer : row, &overlay);
  } else {
    shown = StatOf(row, nullptr);
  }
  entry.attr = shown.status;
  entry.attr_timeout = shown.keep ? kKeepSeconds : 0;
  entry.entry_timeout = kKeepSeconds;
  return entry;
}

}  // namespace quadfs::fs
