#pragma once

#include <cstdint>

#include "fs/node/file_table.h"
#include "fs/node/fuse_compat.h"

namespace quadfs::fs {

/// What an open descriptor of a file stands for; the kernel carries its address.
struct Handle {
  FileTable::Ref file;
  bool writable = false;
};
inline Handle& HandleOf(const fuse_file_info* info) {
  return *reinterpret_cast<Handle*>(static_cast<uintptr_t>(info->fh));
}

}  // namespace quadfs::fs
