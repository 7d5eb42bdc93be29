// Directories: listing them.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fs/node/request.h"
#include "fs/node/rows.h"

namespace quadfs::fs {
namespace {

using metadata::Attributes;
using metadata::DirectoryEntry;

/// An open directory. A position is how many entries were given before it: 1 is after ".", 2 after
/// "..", 2 + n after the n-th name. Names given are remembered, so that a listing goes on after the
/// name it ended with, whatever happened to that name or its neighbours meanwhile.
struct DirectoryHandle {
  InodeId directory;
  Mutex mutex;
  std::vector<std::string> names QUADFS_GUARDED_BY(mutex);
};

DirectoryHandle& DirectoryOf(const fuse_file_info* info) {
  return *reinterpret_cast<DirectoryHandle*>(static_cast<uintptr_t>(info->fh));
}

mode_t TypeBitsOf(metadata::FileType type) {
  Attributes row;
  row.type = type;
  return StatOf(row, nullptr).status.st_mode;
}

void OpenDirectory(fuse_req_t request, fuse_ino_t nodeid, fuse_file_info* info) {
  MountCore& core = CoreOf(request);
  const auto row = RowOf(core, nodeid);
  if (!row.ok()) return ReplyError(request, row.error());
  if (row->type != metadata::FileType::kDirectory) {
    return void(fuse_reply_err(request, ENOTDIR));
  }
  auto handle = std::make_unique<DirectoryHandle>();
  handle->directory = core.inodes.InodeOf(nodeid);
  info->fh = reinterpret_cast<uintptr_t>(handle.get());
  if (fuse_reply_open(request, info) == 0) (void)handle.release();
}

void ReleaseDirectory(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  const std::unique_ptr<DirectoryHandle> handle(&DirectoryOf(info));
  fuse_reply_err(request, 0);
}

void SyncDirectory(fuse_req_t request, fuse_ino_t, int, fuse_file_info*) {
  ReplyDone(request, SyncNames(CoreOf(request)));
}

/// Fills one reply.
class Page {
 public:
  Page(fuse_req_t request, size_t size, bool plus)
      : request_(request), core_(CoreOf(request)), plus_(plus), buffer_(size) {}

  /// False: full.
  bool Add(const std::string& name, InodeId inode, metadata::FileType type, const Attributes* row,
           off_t next) {
    char* const at = buffer_.data() + used_;
    const size_t room = buffer_.size() - used_;
    size_t taken = 0;
    if (!plus_) {
      struct stat status {};
      status.st_ino = inode.value;
      status.st_mode = TypeBitsOf(type);
      taken = fuse_add_direntry(request_, at, room, name.c_str(), &status, next);
      if (taken > room) return false;
    } else {
      fuse_entry_param entry{};
      entry.attr.st_ino = inode.value;
      entry.attr.st_mode = TypeBitsOf(type);
      taken = fuse_add_direntry_plus(request_, nullptr, 0, name.c_str(), &entry, next);
      if (taken > room) return false;
      if (row != nullptr) {
        entry = EntryOf(core_, *row);
        given_.push_back(entry.ino);
      }
      fuse_add_direntry_plus(request_, at, room, name.c_str(), &entry, next);
    }
    used_ += taken;
    return true;
  }

  /// With what there is, or with the error if there is nothing.
  void Reply(const Result<void>& listed) {
    if (!listed.ok() && used_ == 0) return ReplyError(request_, listed.error());
    if (fuse_reply_buf(request_, buffer_.data(), used_) == 0) return;
    for (const uint64_t nodeid : given_) core_.inodes.Forget(nodeid, 1);
  }

 private:
  fuse_req_t request_;
  MountCore& core_;
  bool plus_;
  std::vector<char> buffer_;
  size_t used_ = 0;
  std::vector<uint64_t> given_;
};

/// "." and ".." have numbers but are no lookups.
bool AddDots(const metadata::View& view, InodeId directory, off_t& position, Page& page) {
  constexpr auto kDirectory = metadata::FileType::kDirectory;
  if (position == 0) {
    if (!page.Add(".", directory, kDirectory, nullptr, 1)) return false;
    position = 1;
  }
  if (position == 1) {
    const auto parent = view.Lookup(directory, "..");
    if (!page.Add("..", parent.ok() ? parent->inode : directory, kDirectory, nullptr, 2)) {
      return false;
    }
    position = 2;
  }
  return true;
}

Result<void> Fill(const metadata::View& view, DirectoryHandle& handle, size_t size, off_t position,
                  bool plus, Page& page) {
  const MutexLock lock(handle.mutex);
  if (position == 0) handle.names.clear();  // rewinddir: the present state.
  if (!AddDots(view, handle.directory, position, page)) return {};
  handle.names.resize(std::min(handle.names.size(), static_cast<size_t>(position - 2)));
  // About as many as fit; each takes at least this much.
  const size_t limit = size / (plus ? 152 : 24) + 1;
  for (;;) {
    const std::string after = handle.names.empty() ? std::string() : handle.names.back();
    auto entries = view.List(handle.directory, after, limit, plus);
    // Removed while it is open: it has no entries.
    if (!entries.ok() && entries.error().code() == ErrorCode::kNotFound) return {};
    if (!entries.ok()) return std::move(entries).error();
    for (const DirectoryEntry& entry : *entries) {
      const off_t next = static_cast<off_t>(handle.names.size()) + 3;
      const Attributes* const row = entry.attributes ? &*entry.attributes : nullptr;
      if (!page.Add(entry.name, entry.inode, entry.type, row, next)) return {};
      handle.names.push_back(entry.name);
    }
    if (entries->size() < limit) return {};
  }
}

void List(fuse_req_t request, size_t size, off_t position, const fuse_file_info* info, bool plus) {
  Page page(request, size, plus);
  const auto listed = Fill(CoreOf(request).view(), DirectoryOf(info), size, position, plus, page);
  page.Reply(listed);
}

void ReadDirectory(fuse_req_t request, fuse_ino_t, size_t size, off_t offset,
                   fuse_file_info* info) {
  List(request, size, offset, info, false);
}

void ReadDirectoryPlus(fuse_req_t request, fuse_ino_t, size_t size, off_t offset,
                       fuse_file_info* info) {
  List(request, size, offset, info, true);
}

}  // namespace

void AddDirectoryOperations(fuse_lowlevel_ops& table) {
  table.opendir = OpenDirectory;
  table.readdir = ReadDirectory;
  table.readdirplus = ReadDirectoryPlus;
  table.releasedir = ReleaseDirectory;
  table.fsyncdir = SyncDirectory;
}

}  // namespace quadfs::fs
