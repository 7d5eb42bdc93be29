#include "fs/node/content.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "fs/node/grow_content.h"

namespace quadfs::fs {
namespace {

using metadata::Attributes;

/// Between two looks for a version that somebody holds.
constexpr std::chrono::milliseconds kHolderPause{50};

struct timespec TimeOf(int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  int64_t seconds = ns / kSecond;
  if (ns % kSecond < 0) --seconds;
  return {.tv_sec = seconds, .tv_nsec = ns - seconds * kSecond};
}

/// The object is dirty from now on.
void BecomeDirty(MountCore& core, OpenFile& file, bool whole, bool forced) {
  const MutexLock lock(file.mutex);
  file.dirty = true;
  file.whole = whole;
  file.forced = forced;
  file.base_manifest = whole ? nullptr : file.object->manifest();
  file.TakeBaseline();
  file.published_at = std::chrono::steady_clock::now();
  core.NoteCachePath(file.object->path());
}

Result<void> AttachNew(MountCore& core, OpenFile& file, const Attributes& row, bool truncates) {
  auto made = core.cache.CreateDirty(file.inode, row.generation);
  if (!made.ok() && made.error().code() == ErrorCode::kExists) {
    AdoptDirty(file, QUADFS_TRY(core.cache.FindDirty(file.inode)), row);
    return TruncateContent(file, 0);
  }
  if (!made.ok()) return std::move(made).error();
  {
    const MutexLock lock(file.mutex);
    file.object = std::move(made).value();
    file.version = row;
    file.attached = true;
  }
  BecomeDirty(core, file, /*whole=*/true, /*forced=*/truncates || row.generation.value != 0);
  return {};
}

/// A whole copy that can be passed through; else what there is, to be filled block by block.
Result<cache::ObjectRef> FindVersion(MountCore& core, const Attributes& row,
                                     const Patience& patience) {
  const ObjectId id{row.inode, row.generation};
  cache::ObjectRef object = QUADFS_TRY(core.cache.FindOrCreate(id, row.size, row.root));
  bool complete = object->complete() && QUADFS_TRY(object->VerifyIfChanged());
  if (!complete && row.size <= kCompleteInOpenBytes) {
    QUADFS_TRY(patience.Try([&](Deadline deadline) {
      return core.data.fetcher().Complete(object, Fetcher::Priority::kReader, deadline);
    }));
  }
  return object;
}

/// The version that `row` names, or, if nobody has that any more, the one published meanwhile.
Result<cache::ObjectRef> FindNewestVersion(MountCore& core, Attributes& row,
                                           const Patience& patience) {
  const Deadline deadline = patience.deadline();
  for (;;) {
    auto object = FindVersion(core, row, patience);
    if (object.ok() || object.error().code() != ErrorCode::kNotFound) return object;
    QUADFS_TRY(core.replica.Barrier(false, deadline));
    const Attributes now = QUADFS_TRY(core.view().Get(row.inode));
    if (now.generation != row.generation) {
      row = now;
      continue;
    }
    if (deadline.Passed()) {
      return Error(ErrorCode::kIo, "no reachable place holds the bytes of this version: " +
                                       object.error().message());
    }
    std::this_thread::sleep_for(kHolderPause);  // Its writer is about to publish the next.
  }
}

Result<void> Attach(MountCore& core, OpenFile& file, Attributes row, const ContentWish& wish,
                    const Patience& patience) {
  if (auto dirty = core.cache.FindDirty(file.inode); dirty.ok()) {
    AdoptDirty(file, *dirty, row);
    return {};
  }
  if (wish.write && (wish.truncate || row.generation.value == 0)) {
    return AttachNew(core, file, row, wish.truncate);
  }
  cache::ObjectRef object;
  UniqueFd store_file;
  if (row.generation.value != 0) {
    auto own = core.cache.Find({row.inode, row.generation});
    const bool have_it = own.ok() && (*own)->complete();
    if (!have_it && !wish.write && core.passthrough && core.store.enabled()) {
      auto opened = core.store.Open(core.view(), core.options.campus, row);
      if (opened.ok()) store_file = std::move(opened).value();
    }
    if (!store_file) object = QUADFS_TRY(FindNewestVersion(core, row, patience));
  }
  const MutexLock lock(file.mutex);
  file.object = std::move(object);
  file.store_file = std::move(store_file);
  file.version = row;
  file.attached = true;
  return {};
}

Result<void> MakeWritable(MountCore& core, OpenFile& file, const Patience& patience) {
  if (file.dirty) return {};
  if (file.store_file) {
    // Its readers are passed through to the store's file: writers get a kernel inode of their own.
    core.inodes.Supersede(file.nodeid);
    return Error(ErrorCode::kStale, "the file is open from the campus's store");
  }
  if (!file.object) return AttachNew(core, file, file.version, /*truncates=*/false);
  if (file.object->complete()) {
    QUADFS_TRY(file.object->MakeDirty());
  } else {
    if (!file.object->manifest()) {
      QUADFS_TRY(patience.Try([&](Deadline deadline) {
        return core.data.fetcher().Ensure(file.object, 0, 1, Fetcher::Priority::kReader, deadline);
      }));
    }
    QUADFS_TRY(file.object->MakePartialDirty());
    (void)core.data.fetcher().CompleteLater(file.object, Fetcher::Priority::kCompletion);
  }
  // What fstat says of the local file is what programs see from now on.
  const struct timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                                    TimeOf(file.version.mtime_ns)};
  if (::futimens(file.object->fd(), times) != 0) {
    return ErrorFromErrno(errno, "setting the time of a cache file");
  }
  BecomeDirty(core, file, /*whole=*/false, /*forced=*/false);
  return {};
}

}  // namespace

void AdoptDirty(OpenFile& file, cache::ObjectRef object, const Attributes& row) {
  const MutexLock lock(file.mutex);
  file.object = std::move(object);
  file.version = row;
  file.version.generation = file.object->id().generation;
  file.attached = true;
  file.dirty = true;
  file.forced = true;  // What happened before is not known: its content decides.
  file.whole = file.object->manifest() == nullptr;
  file.base_manifest = file.object->manifest();
  file.TakeBaseline();
}

Result<void> TruncateContent(OpenFile& file, uint64_t size) {
  const FileSignature before = FileSignature::OfFd(file.object->fd());
  QUADFS_TRY(file.object->NoteTruncate(size));
  const MutexLock lock(file.mutex);
  if (before.size != size) file.forced = true;
  if (size == 0) file.whole = true;
  return {};
}

Result<void> CompleteContent(MountCore& core, OpenFile& file, const Patience& patience) {
  if (!file.object || file.object->complete()) return {};
  return patience.Try([&](Deadline deadline) {
    return core.data.fetcher().Complete(file.object, Fetcher::Priority::kReader, deadline);
  });
}

Result<void> PrepareContent(MountCore& core, OpenFile& file, const Attributes& row,
                            const ContentWish& wish, const Patience& patience) {
  bool fresh = false;
  if (file.attached && !file.dirty && file.handles == 0) {
    // Nobody looks at it any more: take the newest.
    const MutexLock lock(file.mutex);
    file.object.reset();
    file.store_file.Reset();
    file.attached = false;
  }
  if (!file.attached) {
    QUADFS_TRY(Attach(core, file, row, wish, patience));
    fresh = file.dirty && file.whole;
  } else if (!file.dirty && file.version.generation != row.generation) {
    if (GrowContent(core, file, row, patience.deadline()).ok()) {
      return PrepareContent(core, file, row, wish, patience);
    }
    core.inodes.Supersede(file.nodeid);
    return Error(ErrorCode::kStale, "the file has a newer version than the one that is open");
  }
  if (!wish.write) return {};
  QUADFS_TRY(MakeWritable(core, file, patience));
  if (wish.truncate && !(fresh && file.object->size_bytes() == 0)) {
    QUADFS_TRY(TruncateContent(file, 0));
  }
  const MutexLock lock(file.mutex);
  if (wish.uid != 0) file.writer_uid = wish.uid;
  return {};
}

}  // namespace quadfs::fs
