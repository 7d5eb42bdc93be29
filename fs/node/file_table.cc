#include "fs/node/file_table.h"

namespace quadfs::fs {

void FileTable::Ref::Reset() {
  if (file_ == nullptr) return;
  // The object behind it may close a descriptor: after the table's lock.
  const std::shared_ptr<OpenFile> file = std::move(file_);
  std::exchange(table_, nullptr)->Drop(*file);
}

FileTable::Ref FileTable::Acquire(uint64_t nodeid, InodeId inode) {
  const MutexLock lock(mutex_);
  Entry& entry = files_[nodeid];
  if (!entry.file) entry.file = std::make_shared<OpenFile>(nodeid, inode);
  ++entry.refs;
  return Ref(this, entry.file);
}

FileTable::Ref FileTable::Find(uint64_t nodeid) {
  const MutexLock lock(mutex_);
  const auto found = files_.find(nodeid);
  if (found == files_.end()) return {};
  ++found->second.refs;
  return Ref(this, found->second.file);
}

std::vector<FileTable::Ref> FileTable::All() {
  std::vector<Ref> all;
  const MutexLock lock(mutex_);
  all.reserve(files_.size());
  for (auto& [nodeid, entry] : files_) {
    ++entry.refs;
    all.push_back(Ref(this, entry.file));
  }
  return all;
}

size_t FileTable::size() const {
  const MutexLock lock(mutex_);
  return files_.size();
}

void FileTable::Drop(const OpenFile& file) {
  std::shared_ptr<OpenFile> last;
  const MutexLock lock(mutex_);
  const auto found = files_.find(file.nodeid);
  if (--found->second.refs > 0) return;
  last = std::move(found->second.file);
  files_.erase(found);
}

}  // namespace quadfs::fs
