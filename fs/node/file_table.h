#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fs/node/open_file.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {

/// The open and unpublished files by nodeid. A file is in it as long as somebody holds a Ref.
/// Threads: every method may be called concurrently; none waits for I/O.
class FileTable {
 public:
  /// Keeps a file in the table; move-only. Lifetime: the table outlives it.
  class Ref {
   public:
    Ref() = default;
    Ref(Ref&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)), file_(std::move(other.file_)) {}
    Ref& operator=(Ref&& other) noexcept {
      if (this != &other) {
        Reset();
        table_ = std::exchange(other.table_, nullptr);
        file_ = std::move(other.file_);
      }
      return *this;
    }
    ~Ref() { Reset(); }
    explicit operator bool() const { return file_ != nullptr; }
    OpenFile& operator*() const { return *file_; }
    OpenFile* operator->() const { return file_.get(); }
    void Reset();

   private:
    friend class FileTable;
    Ref(FileTable* table, std::shared_ptr<OpenFile> file) : table_(table), file_(std::move(file)) {}
    FileTable* table_ = nullptr;
    std::shared_ptr<OpenFile> file_;
  };

  /// The file of that nodeid, made if there is none.
  Ref Acquire(uint64_t nodeid, InodeId inode);
  /// None if it is not in the table.
  Ref Find(uint64_t nodeid);
  std::vector<Ref> All();
  size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<OpenFile> file;
    uint32_t refs = 0;
  };
  void Drop(const OpenFile& file);

  mutable Mutex mutex_;
  std::unordered_map<uint64_t, Entry> files_ QUADFS_GUARDED_BY(mutex_);
};

}  // namespace quadfs::fs
