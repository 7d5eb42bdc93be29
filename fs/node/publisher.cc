#include "fs/node/publisher.h"

#include <sys/stat.h>

#include "fs/node/content.h"
#include "fs/node/invalidator.h"
#include "fs/node/merge_content.h"
#include "fs/node/rows.h"
#include "metadata/operation.h"
#include "transport/base/random.h"

namespace quadfs::fs {
namespace {

using metadata::Attributes;

/// Rounds of "somebody else published meanwhile" in one attempt.
constexpr int kMaxRounds = 4;

}  // namespace

Result<void> Publisher::Publish(OpenFile& file, Deadline deadline) {
  auto done = PublishNow(file, deadline);
  if (done.ok()) return {};
  const ErrorCode code = done.error().code();
  if (code == ErrorCode::kIo || code == ErrorCode::kNoSpace) return done;
  // The bytes are safe on this disk: close succeeds, the background goes on.
  core_.SetProblem("publishing waits: " + done.error().ToString());
  Later(file.nodeid, std::chrono::milliseconds(100));
  return {};
}

Result<void> Publisher::PublishNow(OpenFile& file, Deadline deadline) {
  if (!file.dirty || file.orphan) return {};
  if (!file.Changed() && !file.baseline_racy && !file.pending) return {};
  return PublishContent(file, deadline);
}

// The row that the file's content goes on from: its own or, where the version it was made from lost
// a merge, that of the conflict copy which has that version now.
Result<Attributes> Publisher::RowOf(const OpenFile& file) const {
  Attributes row = QUADFS_TRY(core_.view().Get(file.inode));
  if (row.generation == file.version.generation) return row;
  const auto fork = QUADFS_TRY(core_.view().ForkOf({file.inode, file.version.generation}));
  if (!fork) return row;
  const auto copy = core_.view().Get(*fork);
  if (!copy.ok() || copy->nlink == 0) return row;
  const bool goes_on = copy->generation == file.version.generation ||
                       (file.pending && copy->generation == file.pending->generation);
  return goes_on ? *copy : row;
}

Result<void> Publisher::PublishContent(OpenFile& file, Deadline deadline) {
  if (!core_.replica.status().connected) {
    return Error(ErrorCode::kUnavailable, "no contact with the hub");
  }
  for (int round = 0; round < kMaxRounds; ++round) {
    const Attributes row = QUADFS_TRY(RowOf(file));
    if (row.nlink == 0) return {};  // Removed: nobody can reach it but its handles.
    if (!file.object->complete()) {
      QUADFS_TRY(core_.data.fetcher().Complete(file.object, Fetcher::Priority::kReader, deadline));
    }
    const FileSignature before = FileSignature::OfFd(file.object->fd());
    if (file.pending && row.generation == file.pending->generation) {  // It had arrived.
      OpenFile::Publication done = std::move(*file.pending);
      QUADFS_TRY(Accept(file, done.generation, std::move(done.manifest), FileSignature{}));
      continue;  // What was changed since then goes into the next.
    }
    const auto begun = std::chrono::steady_clock::now();
    cache::Manifest manifest = QUADFS_TRY(file.object->ComputeManifest());
    file.reading_time = std::chrono::steady_clock::now() - begun;
    const Checksum root = manifest.Root();
    // Who is not root takes the set-id bits away, with the same bytes too.
    const bool drops_set_id =
        file.writer_uid != 0 && file.Changed() && WithoutSetId(row.mode) != row.mode;
    const bool same = row.generation.value != 0 && row.size == manifest.size_bytes() &&
                      row.root == root && !drops_set_id;
    if (same) {
      if (row.mtime_ns != before.mtime_ns && file.Changed()) {
        QUADFS_TRY(PublishTime(file, row.inode, before.mtime_ns, deadline));
      }
      return Accept(file, row.generation, std::move(manifest), before);
    }
    if (row.generation.value == 0 && manifest.size_bytes() == 0 && !file.forced &&
        !file.Changed()) {
      return {};
    }
    if (row.generation != file.version.generation) {
      QUADFS_TRY(Reconcile(file, row, manifest, deadline));
      continue;
    }
    metadata::Operation publish;
    publish.kind = metadata::OpKind::kPublish;
    publish.credentials.uid = file.writer_uid;  // Of anybody but root: set-id bits go.
    publish.credentials.gid = file.writer_uid != 0 ? row.gid : 0;
    publish.now_ns = Clock::System().WallNanoseconds();
    publish.inode = file.inode;
    publish.base = row.generation;
    publish.generation = metadata::NextGeneration(row.generation, Random::System());
    publish.size = manifest.size_bytes();
    publish.root = root;
    publish.mtime_ns = before.mtime_ns;
    publish.location = {core_.options.campus, core_.options.node, publish.generation, false};
    auto answer = core_.replica.Submit(publish, deadline);
    if (answer.ok()) {
      const MutexLock lock(file.mutex);
      file.version = answer->attributes;
      file.version.inode = file.inode;
    } else if (answer.error().code() == ErrorCode::kStale) {
      QUADFS_TRY(core_.replica.Barrier(false, deadline));
      continue;
    } else {
      if (answer.error().code() == ErrorCode::kTimedOut) {
        core_.NoteUncertain();
        const MutexLock lock(file.mutex);
        file.pending = {publish.generation, std::move(manifest)};
      }
      if (answer.error().code() == ErrorCode::kNotFound) {
        QUADFS_TRY(core_.replica.Barrier(false, deadline));
        continue;  // Removed meanwhile: the row says so now.
      }
      return std::move(answer).error();
    }
    // The operation has no way to say 1970: there, 0 means now.
    if (before.mtime_ns == 0) QUADFS_TRY(PublishTime(file, row.inode, 0, deadline));
    return Accept(file, publish.generation, std::move(manifest), before);
  }
  return Error(ErrorCode::kUnavailable, "other nodes publish the same file all the time");
}

// Written, but with the same bytes.
Result<void> Publisher::PublishTime(OpenFile& file, InodeId inode, int64_t mtime_ns,
                                    Deadline deadline) {
  metadata::Operation touch;
  touch.kind = metadata::OpKind::kSetAttributes;
  touch.now_ns = Clock::System().WallNanoseconds();
  touch.inode = inode;
  touch.set_mask = metadata::kSetMtime;
  touch.mtime_ns = mtime_ns;
  const auto done = QUADFS_TRY(core_.replica.Submit(touch, deadline));
  const MutexLock lock(file.mutex);
  file.version.mtime_ns = done.attributes.mtime_ns;
  return {};
}

// The namespace shows this version: now the cache calls it so, and write-back takes it on.
Result<void> Publisher::Accept(OpenFile& file, Generation generation, cache::Manifest manifest,
                               const FileSignature& before) {
  const auto shared = std::make_shared<const cache::Manifest>(manifest);
  // A file rewritten with the bytes it had: this object takes the place of the older one.
  if (auto twin = core_.cache.Find({file.inode, generation}); twin.ok() && *twin != file.object) {
    (*twin)->Discard();
  }
  QUADFS_TRY(file.object->Seal(generation, std::move(manifest), /*still_open_for_write=*/true));
  {
    const MutexLock lock(file.mutex);
    file.pending.reset();
    file.forced = false;
    file.whole = false;
    file.baseline_racy = false;
    file.baseline = before;
    file.base_manifest = shared;
    file.version.generation = generation;
    file.version.root = shared->Root();
    file.version.size = shared->size_bytes();
    file.published_at = std::chrono::steady_clock::now();
  }
  core_.invalidator->Attributes(file.nodeid);
  if (!file.object->unsaved()) return {};
  return core_.data.write_back().Enqueue({file.inode, generation}, /*sync=*/false);
}

// Another node published while this one was writing. Whoever rewrote everything wins the whole
// file; otherwise the blocks that were changed here go over the newer version.
Result<void> Publisher::Reconcile(OpenFile& file, const Attributes& row,
                                  const cache::Manifest& ours, Deadline deadline) {
  if (!file.whole && file.base_manifest && row.generation.value != 0) {
    QUADFS_TRY(MergeContent(core_, file, row, ours, deadline));
    core_.invalidator->Contents(file.nodeid);
  }
  const MutexLock lock(file.mutex);
  file.version.generation = row.generation;
  file.version.size = row.size;
  file.version.root = row.root;
  file.forced = true;
  return {};
}

Result<void> Publisher::Finish(OpenFile& file, Deadline deadline) {
  if (!file.dirty || file.writers > 0) return {};
  if (file.orphan) {
    if (file.handles == 0) file.object->Discard();
    return {};
  }
  QUADFS_TRY(PublishNow(file, deadline));
  if (auto row = RowOf(file); row.ok() && row->nlink == 0) {
    if (file.handles == 0) {
      file.object->Discard();
      const MutexLock lock(file.mutex);
      file.dirty = false;
    }
    return {};
  }
  if (file.mappable && Mapped(file)) {
    Later(file.nodeid, std::chrono::milliseconds(100));
    return {};
  }
  if (file.mappable) {
    // A store into a page that was dirty already moves no time stamp.
    {
      const MutexLock lock(file.mutex);
      file.mappable = false;
      file.baseline_racy = true;
    }
    if (file.object->id().generation.value != 0 || file.Changed()) {
      QUADFS_TRY(PublishContent(file, deadline));
    }
  }
  return EndDirty(file);
}

Result<void> Publisher::EndDirty(OpenFile& file) {
  if (file.version.generation.value == 0) {  // Made, never written: the row says all there is.
    if (file.Changed()) return Error(ErrorCode::kBusy, "changed again");
    file.object->Discard();
    const MutexLock lock(file.mutex);
    file.object.reset();
    file.dirty = false;
    file.attached = file.handles > 0;
    return {};
  }
  if (!file.base_manifest || !file.object->complete()) return {};  // Its blocks still come.
  QUADFS_TRY(file.object->Seal(file.version.generation, *file.base_manifest,
                               /*still_open_for_write=*/false));
  const MutexLock lock(file.mutex);
  file.dirty = false;
  file.writer_uid = 0;
  return {};
}

void Publisher::Later(uint64_t nodeid, std::chrono::milliseconds delay) {
  FileTable::Ref file = core_.files.Find(nodeid);
  if (!file) return;
  const auto due = std::chrono::steady_clock::now() + delay;
  const MutexLock lock(mutex_);
  if (stopping_) return;
  Item& item = items_[nodeid];
  if (!item.file) {
    item.file = std::move(file);
    item.due = due;
  } else if (due < item.due || item.running) {
    item.due = due;
    item.poked = item.running;
  }
  changed_.NotifyAll();
}

}  // namespace quadfs::fs
