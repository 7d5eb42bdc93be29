// What the publisher does beside its callers: retries, files that stay open, mappings, recovery.
#include <fcntl.h>

#include <algorithm>

#include "fs/node/content.h"
#include "fs/node/grow_content.h"
#include "fs/node/invalidator.h"
#include "fs/node/publisher.h"

namespace quadfs::fs {
namespace {

constexpr size_t kThreads = 2;
constexpr std::chrono::milliseconds kMaxBackOff{2000};
/// How often the open files are looked through.
constexpr std::chrono::seconds kRound{1};

}  // namespace

void Publisher::Start() {
  for (size_t i = 0; i < kThreads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
  }
  threads_.emplace_back([this](const std::stop_token& stop) { WatchOpenFiles(stop); });
}

void Publisher::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  for (std::jthread& thread : threads_) thread.request_stop();
  changed_.NotifyAll();
  threads_.clear();
  std::unordered_map<uint64_t, Item> items;
  const MutexLock lock(mutex_);
  items.swap(items_);
}

// Whether somebody still has the local file open, which can only be through a mapping once all
// handles are closed: a write lease is granted to the only user alone.
bool Publisher::Mapped(const OpenFile& file) const {
  const int fd = file.object->fd();
  if (::fcntl(fd, F_SETLEASE, F_WRLCK) != 0) return errno == EAGAIN || errno == EBUSY;
  ::fcntl(fd, F_SETLEASE, F_UNLCK);
  return false;
}

void Publisher::Work(const std::stop_token& stop) {
  for (;;) {
    Item* item = nullptr;
    uint64_t nodeid = 0;
    {
      MutexLock lock(mutex_);
      while (item == nullptr) {
        if (stop.stop_requested()) return;
        auto next = std::chrono::steady_clock::now() + std::chrono::hours(1);
        for (auto& [id, candidate] : items_) {
          if (candidate.running || candidate.due >= next) continue;
          next = candidate.due;
          nodeid = id;
          item = &candidate;
        }
        if (item != nullptr && item->due > std::chrono::steady_clock::now()) item = nullptr;
        if (item == nullptr) changed_.WaitUntil(mutex_, next);
      }
      item->running = true;
      item->poked = false;
    }
    const auto again = Attend(*item);
    FileTable::Ref done;
    const MutexLock lock(mutex_);
    const auto found = items_.find(nodeid);
    if (found == items_.end()) return;  // Stopped meanwhile.
    found->second.running = false;
    if (found->second.poked && !stopping_) continue;  // Its time was set meanwhile.
    if (again && !stopping_) {
      found->second.due = std::chrono::steady_clock::now() + *again;
    } else {
      done = std::move(found->second.file);
      items_.erase(found);
    }
  }
}

std::optional<std::chrono::milliseconds> Publisher::Attend(Item& item) {
  OpenFile& file = *item.file;
  const MutexLock turn(file.turn);
  if (!file.dirty) {
    FollowVersion(file);
    return std::nullopt;
  }
  const bool open_for_write = file.writers > 0;
  const Deadline deadline = Deadline::After(
      std::max<std::chrono::milliseconds>(core_.options.deadline, std::chrono::seconds(5)));
  auto done = open_for_write ? PublishNow(file, deadline) : Finish(file, deadline);
  if (done.ok()) {
    item.back_off = std::chrono::milliseconds(100);
    if (!file.dirty || file.orphan || open_for_write) return std::nullopt;
    return kMaxBackOff / 2;  // Mapped, or its old blocks still come.
  }
  core_.SetProblem("publishing waits: " + done.error().ToString());
  item.back_off = std::min(item.back_off * 2, kMaxBackOff);
  return item.back_off;
}

// A newer version was published elsewhere while this one is open here: an append is taken over, of
// anything else the handles keep what they have, and whoever opens the name gets the new one.
void Publisher::FollowVersion(OpenFile& file) {
  const auto row = core_.view().Get(file.inode);
  if (!row.ok() || file.handles == 0 || !file.attached || file.orphan ||
      row->generation == file.version.generation || core_.inodes.superseded(file.nodeid)) {
    return;
  }
  if (GrowContent(core_, file, *row, core_.NewDeadline()).ok()) return;
  core_.inodes.Supersede(file.nodeid);
  core_.invalidator->Name(file.inode);
}

void Publisher::WatchOpenFiles(const std::stop_token& stop) {
  for (;;) {
    {
      MutexLock lock(mutex_);
      const auto next = std::chrono::steady_clock::now() + kRound;
      while (!stop.stop_requested() && changed_.WaitUntil(mutex_, next)) {
      }
      if (stop.stop_requested()) return;
    }
    for (const FileTable::Ref& file : core_.files.All()) {
      if (stop.stop_requested()) return;
      {
        const MutexLock lock(file->mutex);
        if (file->writers == 0) continue;
      }
      const MutexLock turn(file->turn);
      const auto since = std::chrono::steady_clock::now() - file->published_at;
      if (file->writers == 0 || since < WhileOpen(*file) || !file->Changed()) continue;
      (void)Publish(*file, core_.NewDeadline());
    }
  }
}

void Publisher::Recover() {
  auto unsaved = core_.cache.Unsaved();
  if (!unsaved.ok()) {
    core_.SetProblem("recovery: " + unsaved.error().ToString());
    return;
  }
  for (const cache::ObjectRef& object : *unsaved) {
    const ObjectId id = object->id();
    if (DropHalfGrown(core_, *object)) continue;
    const auto row = core_.view().Get(id.inode);
    const auto fork = core_.view().ForkOf(id);
    if (row.ok() && row->nlink == 0 && fork.ok() && !*fork) {
      object->Discard();  // Nobody can reach it any more.
      continue;
    }
    if (!object->dirty()) {
      if (auto queued = core_.data.write_back().Enqueue(id, /*sync=*/false); !queued.ok()) {
        core_.SetProblem("recovery: " + queued.error().ToString());
      }
      continue;
    }
    const uint64_t nodeid = core_.inodes.Current(id.inode);
    FileTable::Ref file = core_.files.Acquire(nodeid, id.inode);
    {
      const MutexLock turn(file->turn);
      if (!file->attached) {
        metadata::Attributes version;
        version.inode = id.inode;
        AdoptDirty(*file, object, row.ok() ? *row : version);
      }
    }
    Later(nodeid, std::chrono::milliseconds(0));
  }
}

void Publisher::Republish(const ObjectId& refused) {
  const uint64_t nodeid = core_.inodes.Current(refused.inode);
  const FileTable::Ref file = core_.files.Acquire(nodeid, refused.inode);
  {
    const MutexLock turn(file->turn);
    const auto object = core_.cache.Find(refused);
    const auto row = core_.view().Get(refused.inode);
    if (!file->dirty) {
      if (!object.ok() || !row.ok() || row->nlink == 0) return;
      if (auto changed = (*object)->MakeDirty(); !changed.ok()) {
        return core_.SetProblem("publishing again: " + changed.error().ToString());
      }
      AdoptDirty(*file, *object, *row);
    }
    const MutexLock lock(file->mutex);
    file->forced = true;
  }
  Later(nodeid, std::chrono::milliseconds(0));
}

void Publisher::Drain(Deadline deadline) {
  for (const FileTable::Ref& file : core_.files.All()) {
    if (deadline.Passed()) return;
    const MutexLock turn(file->turn);
    if (!file->dirty) continue;
    auto done = file->writers > 0 ? PublishNow(*file, deadline) : Finish(*file, deadline);
    if (!done.ok()) core_.SetProblem("left for the next start: " + done.error().ToString());
  }
}

}  // namespace quadfs::fs
