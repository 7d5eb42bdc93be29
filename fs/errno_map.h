#pragma once

#include "transport/base/error.h"

namespace quadfs::fs {

/// The errno a program gets for a code; the only place where codes become numbers of the kernel.
/// Never 0.
int ErrnoOf(ErrorCode code);
inline int ErrnoOf(const Error& error) { return ErrnoOf(error.code()); }

}  // namespace quadfs::fs
