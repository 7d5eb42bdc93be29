#pragma once

// FUSE_USE_VERSION comes from CMake: 317 where libfuse has passthrough, else 314.
#include <fuse_lowlevel.h>

#include <cstdint>
#include <string_view>

namespace quadfs::fs {

/// What differs between the libfuse versions quadfs compiles with. Nothing else asks for a version.
#if defined(FUSE_CAP_PASSTHROUGH)
inline constexpr bool kHavePassthrough = true;
/// 0: the kernel or the file system below cannot.
inline int OpenBacking(fuse_req_t request, int fd) { return fuse_passthrough_open(request, fd); }
inline void CloseBacking(fuse_req_t request, int backing_id) {
  fuse_passthrough_close(request, backing_id);
}
inline void UseBacking(fuse_file_info& info, int backing_id) { info.backing_id = backing_id; }
/// Whether the connection passes through now.
inline bool WantPassthrough(fuse_conn_info& connection, bool stacked_backing) {
  if ((connection.capable & FUSE_CAP_PASSTHROUGH) == 0) return false;
  connection.want |= FUSE_CAP_PASSTHROUGH;
  // Above 0 only where it must be: it forbids to stack another file system over this one.
  connection.max_backing_stack_depth = stacked_backing ? 1 : 0;
  return true;
}
#else
inline constexpr bool kHavePassthrough = false;
inline int OpenBacking(fuse_req_t, int) { return 0; }
inline void CloseBacking(fuse_req_t, int) {}
inline void UseBacking(fuse_file_info&, int) {}
inline bool WantPassthrough(fuse_conn_info&, bool) { return false; }
#endif

/// The kernel asks again before it next uses the name. Where it can, without dropping the entry
/// (watches and working directories stay), else by dropping it.
inline void ForgetName(fuse_session* session, uint64_t parent, std::string_view name) {
#if defined(FUSE_CAP_EXPIRE_ONLY)
  if (fuse_lowlevel_notify_expire_entry(session, parent, name.data(), name.size()) != -38) return;
#endif
  fuse_lowlevel_notify_inval_entry(session, parent, name.data(), name.size());
}

}  // namespace quadfs::fs
