#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metadata/local_store.h"
#include "transport/base/clock.h"
#include "transport/base/ids.h"
#include "transport/base/result.h"
#include "transport/client.h"

namespace quadfs::fs {

/// How safe a version is, as user.quad.state shows it.
enum class SaveState : uint8_t {
  kDirty,     ///< Being changed here, not published.
  kLocal,     ///< Published; its bytes are on one node only.
  kCampus,    ///< In its campus's store.
  kArchived,  ///< In main's archive.
  kVerified,  ///< Read back there and checked.
};
const char* SaveStateName(SaveState state);

class UploadReader;

/// The durable queue that carries published versions one step towards the archive: on a node to
/// its hub's store, on a branch hub to main's. A row on disk per object; survives restarts; resumes
/// inside a file; superseded versions are dropped; one stuck file does not hold up the others.
/// Threads: every method may be called concurrently.
class WriteBack {
 public:
  struct Entry {
    ObjectId object;
    uint64_t size_bytes = 0;
    uint64_t sent_bytes = 0;
    uint32_t attempts = 0;
    std::string problem;  ///< Of the last attempt.
  };
  struct Status {
    uint64_t queued = 0, queued_bytes = 0, sent_bytes = 0;
    double bytes_per_second = 0;  ///< Over the last 10 s.
    bool paused = false;
    std::string problem;
  };

  struct Options {
    std::string family = "writeback";  ///< Of the LocalStore.
    uint32_t uploads = 6;              ///< Under way at once.
    uint32_t large_uploads = 2;        ///< Of these, of files of `large_bytes` or more.
    uint64_t large_bytes = uint64_t{8} << 20;
    uint64_t limit_bytes_per_second = 200'000'000;  ///< 0: none.
    std::chrono::milliseconds first_back_off{200};  ///< Of a failed file; doubles, at most 30 s.
  };

  /// Reads what an earlier run left in the queue and begins. Errors: kIo.
  /// Lifetime: store, reader and client outlive it.
  static Result<std::unique_ptr<WriteBack>> Create(Options options, metadata::LocalStore& local,
                                                   UploadReader& reader,
                                                   transport::Client& upstream);
  virtual ~WriteBack() = default;
  /// Durable when it returns (after the index's Sync if `sync`).
  virtual Result<void> Enqueue(const ObjectId& object, bool sync) = 0;
  /// Versions of that inode that wait for another attempt are looked at now.
  virtual void Hurry(InodeId inode) = 0;
  /// Returns when the queue no longer holds `object`, or any version of the inode.
  virtual Result<void> WaitDrained(std::optional<InodeId> inode, Deadline deadline) = 0;
  virtual std::vector<Entry> Entries(size_t limit) const = 0;
  virtual Status status() const = 0;
  /// 0: no cap.
  virtual void SetLimit(uint64_t bytes_per_second) = 0;
  virtual void SetPaused(bool paused) = 0;
  virtual void Stop() = 0;
};

}  // namespace quadfs::fs
