#include "fs/node/invalidator.h"

#include <unistd.h>

#include <algorithm>

#include "fs/node/publisher.h"
#include "fs/node/rows.h"

namespace quadfs::fs {
namespace {

constexpr std::chrono::milliseconds kRepeatAfter{100};

/// Tells the kernel that no name it knows is valid any more (FUSE_NOTIFY_INC_EPOCH, Linux 6.16).
/// False: this kernel cannot.
bool IncrementEpoch(fuse_session* session) {
  struct {
    uint32_t length;
    int32_t code;
    uint64_t unique;
  } const message{16, 8, 0};
  return ::write(fuse_session_fd(session), &message, sizeof(message)) == sizeof(message);
}

}  // namespace

void Invalidator::Start(fuse_session* session) {
  session_.store(session);
  for (Lane& lane : lanes_) {
    lane.thread = std::jthread([this, &lane](const std::stop_token& stop) { Work(lane, stop); });
  }
}

void Invalidator::Stop() {
  for (Lane& lane : lanes_) {
    lane.thread.request_stop();
    {
      const MutexLock lock(lane.mutex);
      lane.changed.NotifyAll();
    }
    if (lane.thread.joinable()) lane.thread.join();
  }
  session_.store(nullptr);
}

void Invalidator::OnChange(const metadata::Change& change) {
  for (const InodeId inode : change.removed) Queue({Kind::kRemoved, inode.value, {}, {}, 0});
  if (change.own && !core_.OwnChangesUncertain()) return;
  for (const auto& [parent, name] : change.dentries) {
    if (core_.inodes.Known(parent.value)) Queue({Kind::kName, parent.value, name, {}, 0});
  }
  for (const InodeId inode : change.attributes) {
    const uint64_t nodeid = core_.inodes.Current(inode);
    if (!core_.inodes.Known(nodeid)) continue;
    const bool content =
        std::find(change.contents.begin(), change.contents.end(), inode) != change.contents.end();
    Queue({content ? Kind::kContents : Kind::kAttributes, nodeid, {}, {}, 0});
  }
}

void Invalidator::OnReset() { Queue({Kind::kReset, 0, {}, {}, 0}); }

void Invalidator::Attributes(uint64_t nodeid) { Queue({Kind::kAttributes, nodeid, {}, {}, 0}); }

void Invalidator::Contents(uint64_t nodeid) { Queue({Kind::kContents, nodeid, {}, {}, 0}); }

void Invalidator::Grown(uint64_t nodeid, uint64_t offset) {
  Queue({Kind::kGrown, nodeid, {}, {}, offset});
}

void Invalidator::Name(InodeId inode) {
  auto name = core_.view().NameOf(inode);
  if (name.ok()) Queue({Kind::kName, name->first.value, std::move(name->second), {}, 0});
}

void Invalidator::AttributesNow(uint64_t nodeid) {
  fuse_session* const session = session_.load();
  if (session != nullptr) fuse_lowlevel_notify_inval_inode(session, nodeid, -1, 0);
}

void Invalidator::Queue(Item item) {
  Lane& lane = lanes_[std::hash<InodeId>{}(InodeId(item.nodeid)) % lanes_.size()];
  const MutexLock lock(lane.mutex);
  if (lane.now.size() >= kLaneLimit) {
    lane.overflow = true;
    lane.now.clear();
    lane.repeat.clear();
    lane.now.push_back({Kind::kReset, 0, {}, {}, 0});
  } else {
    lane.now.push_back(std::move(item));
  }
  lane.changed.NotifyOne();
}

void Invalidator::Work(Lane& lane, const std::stop_token& stop) {
  for (;;) {
    Item item;
    bool first = true;
    {
      MutexLock lock(lane.mutex);
      for (;;) {
        if (stop.stop_requested()) return;
        if (!lane.now.empty()) {
          item = std::move(lane.now.front());
          lane.now.pop_front();
          break;
        }
        if (lane.repeat.empty()) {
          lane.changed.Wait(lane.mutex);
          continue;
        }
        if (lane.repeat.front().due <= std::chrono::steady_clock::now()) {
          item = std::move(lane.repeat.front());
          lane.repeat.pop_front();
          first = false;
          break;
        }
        lane.changed.WaitUntil(lane.mutex, lane.repeat.front().due);
      }
    }
    Apply(item);
    if (!first || item.kind == Kind::kRemoved) continue;
    item.due = std::chrono::steady_clock::now() + kRepeatAfter;
    const MutexLock lock(lane.mutex);
    if (lane.repeat.size() < kLaneLimit) lane.repeat.push_back(std::move(item));
  }
}

void Invalidator::Apply(const Item& item) {
  fuse_session* const session = session_.load();
  if (session == nullptr) return;
  switch (item.kind) {
    case Kind::kName: return ForgetName(session, item.nodeid, item.name);
    case Kind::kAttributes: fuse_lowlevel_notify_inval_inode(session, item.nodeid, -1, 0); return;
    case Kind::kContents: return ApplyContents(item.nodeid);
    case Kind::kGrown:
      fuse_lowlevel_notify_inval_inode(session, item.nodeid, static_cast<off_t>(item.offset), 0);
      return;
    case Kind::kRemoved: return ApplyRemoved(InodeId(item.nodeid));
    case Kind::kReset: return ApplyReset();
  }
}

void Invalidator::ApplyContents(uint64_t nodeid) {
  fuse_session* const session = session_.load();
  const InodeId inode = core_.inodes.InodeOf(nodeid);
  if (const FileTable::Ref file = core_.files.Find(nodeid)) {
    const auto row = core_.view().Get(inode);
    bool reading_old = false;
    bool writing = false;
    {
      const MutexLock lock(file->mutex);
      writing = file->dirty;
      reading_old = file->handles > 0 && !file->dirty && row.ok() &&
                    row->generation != file->version.generation;
    }
    if (reading_old) {
      // Appended, or replaced? That may take the network: not here.
      core_.publisher->Later(nodeid, std::chrono::milliseconds(0));
      return;
    }
    if (writing) {
      fuse_lowlevel_notify_inval_inode(session, nodeid, -1, 0);
      return;
    }
  }
  core_.inodes.SetPages(nodeid, Generation());
  fuse_lowlevel_notify_inval_inode(session, nodeid, 0, 0);
}

void Invalidator::ApplyRemoved(InodeId inode) {
  if (const FileTable::Ref file = core_.files.Find(core_.inodes.Current(inode))) {
    (void)RowOf(core_, *file);  // Keeps the attributes for its handles.
    const MutexLock lock(file->mutex);
    if (file->handles > 0) return;
  }
  const auto row = core_.view().Get(inode);
  if (!row.ok() || row->nlink != 0) return;  // It has a name again.
  if (auto dirty = core_.cache.FindDirty(inode); dirty.ok()) (*dirty)->Discard();
  if (auto object = core_.cache.Find({inode, row->generation}); object.ok()) (*object)->Discard();
}

void Invalidator::ApplyReset() {
  fuse_session* const session = session_.load();
  const bool names = IncrementEpoch(session);
  for (const uint64_t nodeid : core_.inodes.All()) {
    const InodeId inode = core_.inodes.InodeOf(nodeid);
    const auto row = core_.view().Get(inode);
    if (row.ok() && row->type == metadata::FileType::kRegular) {
      ApplyContents(nodeid);
    } else {
      fuse_lowlevel_notify_inval_inode(session, nodeid, 0, 0);
    }
    if (names) continue;
    if (auto name = core_.view().NameOf(inode); name.ok()) {
      ForgetName(session, name->first.value, name->second);
    }
  }
}

}  // namespace quadfs::fs
