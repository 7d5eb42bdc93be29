#include "fs/hub/store_tree.h"

#include <cstdio>

namespace quadfs::fs {
namespace {

constexpr int kMaxDepth = 1024;

std::string Join(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : directory + "/" + name;
}

bool IsGone(const Result<metadata::Attributes>& attributes) {
  return attributes.ok() ? attributes->nlink == 0
                         : attributes.error().code() == ErrorCode::kNotFound;
}

/// A name nobody chose, for what must leave its name before it can take its next one.
std::string AsideName(InodeId inode) {
  char text[48];
  std::snprintf(text, sizeof text, ".quadfs-moving-%016llx",
                static_cast<unsigned long long>(inode.value));
  return text;
}

}  // namespace

/// Path at which the directory stands in the store; made if it does not. It may still stand under
/// an older name: then what is put into it moves along when that is checked.
Result<std::string> StoreTree::EnsureDirectory(InodeId directory, int depth) {
  if (directory == kRootInode) return std::string();
  if (depth > kMaxDepth) return Error(ErrorCode::kInvalidArgument, "directories are too deep");
  if (QUADFS_TRY(records_.Find(directory))) {
    if (auto path = QUADFS_TRY(records_.PathOf(directory))) return std::move(*path);
  }
  const auto attributes = QUADFS_TRY(view_.Get(directory));
  const auto [parent, name] = QUADFS_TRY(view_.NameOf(directory));
  const std::string path = Join(QUADFS_TRY(EnsureDirectory(parent, depth + 1)), name);
  QUADFS_TRY(MakeWay({parent, name}, directory));
  QUADFS_TRY(store_.MakeDirectory(path, attributes.mode, attributes.uid, attributes.gid));
  QUADFS_TRY(records_.Put(directory, {true, parent, name, Generation(0), attributes.mode,
                                      attributes.uid, attributes.gid, 0}));
  return path;
}

/// Whoever stands at that name and is not `self` leaves it.
Result<void> StoreTree::MakeWay(const Place& place, InodeId self) {
  if (claimed_.contains(place)) {
    return Error(ErrorCode::kBusy, "an upload is about to take the name '" + place.second + "'");
  }
  const auto standing = QUADFS_TRY(records_.At(place.first, place.second));
  if (!standing || *standing == self) return {};
  const auto record = QUADFS_TRY(records_.Find(*standing));
  if (!record || record->parent != place.first || record->name != place.second) return {};
  const auto attributes = view_.Get(*standing);
  if (IsGone(attributes)) {
    QUADFS_TRY(RemoveGone(*standing, *record));
    if (!QUADFS_TRY(records_.Find(*standing))) return {};
  }
  return StepAside(*standing, *record);
}

Result<void> StoreTree::StepAside(InodeId inode, const StoreRecord& record) {
  const auto path = QUADFS_TRY(records_.PathOf(inode));
  StoreRecord aside = record;
  aside.name = AsideName(inode);
  if (path) {
    const std::string to = path->substr(0, path->size() - record.name.size()) + aside.name;
    if (record.directory) {
      QUADFS_TRY(store_.MoveDirectory(*path, to));
    } else if (auto moved = store_.MoveFile(inode, to);
               !moved.ok() && moved.error().code() != ErrorCode::kNotFound) {
      return moved;
    }
  }
  QUADFS_TRY(records_.Put(inode, aside));
  again_(inode);
  return {};
}

Result<void> StoreTree::RemoveGone(InodeId inode, const StoreRecord& record) {
  if (record.directory) {
    if (const auto path = QUADFS_TRY(records_.PathOf(inode))) {
      // Files of ours below it go before it; what is left then belongs to somebody else and stays.
      if (!QUADFS_TRY(records_.Children(inode)).empty()) {
        return Error(ErrorCode::kBusy, "a removed directory still holds files in the store");
      }
      if (auto removed = store_.RemoveDirectory(*path);
          !removed.ok() && removed.error().code() != ErrorCode::kNotEmpty) {
        return removed;
      }
    }
  } else {
    QUADFS_TRY(store_.Remove(inode));
  }
  return records_.Erase(inode);
}

Result<void> StoreTree::Check(InodeId inode) {
  MutexLock lock(structure_);
  if (inode == kRootInode || committing_.contains(inode)) return {};  // Commit checks behind it.
  const auto record = QUADFS_TRY(records_.Find(inode));
  if (!record && !all_directories_) return {};
  const auto attributes = view_.Get(inode);
  if (IsGone(attributes)) return record ? RemoveGone(inode, *record) : Result<void>();
  if (!attributes.ok()) return attributes.error();
  const bool directory = attributes->type == metadata::FileType::kDirectory;
  if (!record) {
    if (directory) QUADFS_TRY(EnsureDirectory(inode, 0));
    return {};
  }
  return directory ? CheckDirectory(inode, *record, *attributes)
                   : CheckFile(inode, *record, *attributes);
}

Result<void> StoreTree::Drop(const ObjectId& object) {
  MutexLock lock(structure_);
  if (committing_.contains(object.inode) || !store_.Holds(object)) return {};
  const auto record = QUADFS_TRY(records_.Find(object.inode));
  return record ? RemoveGone(object.inode, *record) : store_.Remove(object.inode);
}

Result<void> StoreTree::CheckFile(InodeId inode, StoreRecord record,
                                  const metadata::Attributes& attributes) {
  if (!store_.HeldGeneration(inode)) return records_.Erase(inode);  // Its upload never ended.
  const auto [parent, name] = QUADFS_TRY(view_.NameOf(inode));
  const std::string path = Join(QUADFS_TRY(EnsureDirectory(parent, 0)), name);
  const auto held = store_.HeldPath(inode);
  if (record.parent != parent || record.name != name || (held.ok() && *held != path)) {
    QUADFS_TRY(MakeWay({parent, name}, inode));
    QUADFS_TRY(store_.MoveFile(inode, path));
    record.parent = parent;
    record.name = name;
    QUADFS_TRY(records_.Put(inode, record));
  }
  StoreRecord wanted = record;
  wanted.mode = attributes.mode;
  wanted.uid = attributes.uid;
  wanted.gid = attributes.gid;
  // The time of a newer version comes with that version.
  if (store_.HeldGeneration(inode) == attributes.generation) {
    wanted.mtime_ns = attributes.mtime_ns;
  }
  if (wanted == record) return {};
  QUADFS_TRY(
      store_.SetAttributes(inode, {path, wanted.mode, wanted.uid, wanted.gid, wanted.mtime_ns}));
  return records_.Put(inode, wanted);
}

/// Renames the directory, or where the target has entries moves what is ours into it.
Result<void> StoreTree::MoveTree(InodeId directory, const std::string& from, const std::string& to,
                                 int depth) {
  auto moved = store_.MoveDirectory(from, to);
  if (moved.ok() || moved.error().code() != ErrorCode::kNotEmpty) return moved;
  if (depth > kMaxDepth) return moved;
  for (const InodeId child : QUADFS_TRY(records_.Children(directory))) {
    const auto record = QUADFS_TRY(records_.Find(child));
    if (!record) continue;
    if (record->directory) {
      QUADFS_TRY(MoveTree(child, Join(from, record->name), Join(to, record->name), depth + 1));
    } else if (auto file = store_.MoveFile(child, Join(to, record->name));
               !file.ok() && file.error().code() != ErrorCode::kNotFound) {
      return file;
    }
  }
  if (auto removed = store_.RemoveDirectory(from);
      !removed.ok() && removed.error().code() != ErrorCode::kNotEmpty) {
    return removed;
  }
  return {};
}

Result<void> StoreTree::CheckDirectory(InodeId inode, StoreRecord record,
                                       const metadata::Attributes& attributes) {
  const auto [parent, name] = QUADFS_TRY(view_.NameOf(inode));
  auto from = QUADFS_TRY(records_.PathOf(inode));
  if (record.parent != parent || record.name != name) {
    const std::string to = Join(QUADFS_TRY(EnsureDirectory(parent, 0)), name);
    if (from && (to + "/").starts_with(*from + "/")) {
      // Its new parent stands below it in the store, and will leave when that is checked.
      again_(parent);
      return Error(ErrorCode::kBusy, "a directory waits until its new parent has moved");
    }
    QUADFS_TRY(MakeWay({parent, name}, inode));
    if (from) QUADFS_TRY(MoveTree(inode, *from, to, 0));
    record.parent = parent;
    record.name = name;
    QUADFS_TRY(records_.Put(inode, record));
    from = to;
  }
  if (record.mode == attributes.mode && record.uid == attributes.uid &&
      record.gid == attributes.gid) {
    return {};
  }
  record.mode = attributes.mode;
  record.uid = attributes.uid;
  record.gid = attributes.gid;
  if (from) QUADFS_TRY(store_.MakeDirectory(*from, record.mode, record.uid, record.gid));
  return records_.Put(inode, record);
}

/// Claims the object's name and says so on disk, before the file gets there.
Result<cache::Placement> StoreTree::Prepare(const ObjectId& object, StoreRecord& record) {
  const auto attributes = view_.Get(object.inode);
  if (IsGone(attributes)) return Error(ErrorCode::kStale, "the file was removed");
  if (!attributes.ok()) return attributes.error();
  const auto [parent, name] = QUADFS_TRY(view_.NameOf(object.inode));
  const std::string path = Join(QUADFS_TRY(EnsureDirectory(parent, 0)), name);
  QUADFS_TRY(MakeWay({parent, name}, object.inode));
  if (committing_.contains(object.inode)) {
    return Error(ErrorCode::kBusy, "a version of the file is being stored already");
  }
  record = {false,
            parent,
            name,
            object.generation,
            attributes->mode,
            attributes->uid,
            attributes->gid,
            attributes->mtime_ns};
  // With an older version in the store its record stays until the new one has replaced it.
  if (!store_.HeldGeneration(object.inode)) QUADFS_TRY(records_.Put(object.inode, record));
  claimed_.insert({parent, name});
  committing_.insert(object.inode);
  return cache::Placement{path, record.mode, record.uid, record.gid, record.mtime_ns};
}

Result<void> StoreTree::Commit(const ObjectId& object, cache::Incoming& incoming) {
  StoreRecord record;
  cache::Placement placement;
  {
    MutexLock lock(structure_);
    placement = QUADFS_TRY(Prepare(object, record));
  }
  auto committed = incoming.Commit(placement);
  Result<void> noted;
  {
    MutexLock lock(structure_);
    claimed_.erase({record.parent, record.name});
    committing_.erase(object.inode);
    if (committed.ok()) {
      noted = records_.Put(object.inode, record);
    } else if (!store_.HeldGeneration(object.inode)) {
      noted = records_.Erase(object.inode);
    }
  }
  again_(object.inode);  // It may have been renamed or removed meanwhile.
  if (!committed.ok()) return committed;
  return noted;
}

}  // namespace quadfs::fs
