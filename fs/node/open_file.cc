#include "fs/node/open_file.h"

namespace quadfs::fs {
namespace {

/// Time stamps of file systems may advance this slowly; what was changed this shortly before a
/// signature was taken may change again without showing.
constexpr int64_t kClockGrainNs = 20'000'000;

int64_t Nanoseconds(const struct timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

FileSignature FileSignature::Of(const struct stat& status) {
  return {static_cast<uint64_t>(status.st_size), Nanoseconds(status.st_mtim),
          Nanoseconds(status.st_ctim)};
}

FileSignature FileSignature::OfFd(int fd) {
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0) return {};
  return Of(status);
}

bool OpenFile::Changed() const {
  if (!dirty || !object) return false;
  return forced || FileSignature::OfFd(object->fd()) != baseline;
}

void OpenFile::TakeBaseline() {
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  baseline = FileSignature::OfFd(object ? object->fd() : -1);
  baseline_racy = Nanoseconds(now) - baseline.ctime_ns < kClockGrainNs;
}

FileOverlay OverlayOf(const OpenFile& file) {
  FileOverlay overlay;
  const MutexLock lock(file.mutex);
  overlay.orphan = file.orphan;
  overlay.version = file.version;
  overlay.writer_uid = file.writer_uid;
  overlay.restless = file.writers > 0 || file.dirty;
  const int fd = file.object && (file.dirty || file.object->complete()) ? file.object->fd() : -1;
  if (fd >= 0 && ::fstat(fd, &overlay.status) == 0) {
    overlay.local_blocks = true;
    overlay.changed =
        file.dirty && (file.forced || FileSignature::Of(overlay.status) != file.baseline);
  }
  return overlay;
}

}  // namespace quadfs::fs
