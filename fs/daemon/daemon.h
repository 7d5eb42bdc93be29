#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "fs/daemon/config.h"
#include "fs/daemon/control_server.h"
#include "fs/daemon/hub_role.h"
#include "fs/daemon/node_role.h"
#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"

namespace quadfs::daemon {

/// quadfsd without its signals: the roles of one configuration and the control socket.
///
/// States: *starting*, *ready*, *stopping*. The control socket answers from the first moment; verbs
/// that need a role that is not up yet say so.
/// Threads: every method may be called concurrently; Start and Stop once each.
class Daemon {
 public:
  struct Options {
    std::string mount_options;           ///< As in fstab, "ro,nosuid".
    std::function<void()> on_unmounted;  ///< Called from a thread of the mount.
  };

  Daemon(Config config, Options options);
  ~Daemon();

  /// Hub first, then node. Errors: one line with what to do; Stop is still to be called.
  Result<void> Start(std::stop_token stop);
  /// Publishes what is dirty, unmounts, ends everything in order. Idempotent.
  void Stop();
  /// Takes over what may change while running from the file; logs what it could not.
  Result<void> Reload();

  Config config() const;
  /// nullptr while the role is absent or not up.
  std::shared_ptr<HubRole> hub() const;
  std::shared_ptr<NodeRole> node() const;
  bool ready() const;
  /// One line for the service manager and for people.
  std::string Summary() const;

 private:
  Result<void> TakeLocks(const std::stop_token& stop);

  const Options options_;
  UniqueFd lock_;
  mutable Mutex mutex_;
  Config config_ QUADFS_GUARDED_BY(mutex_);
  std::shared_ptr<HubRole> hub_ QUADFS_GUARDED_BY(mutex_);
  std::shared_ptr<NodeRole> node_ QUADFS_GUARDED_BY(mutex_);
  bool ready_ QUADFS_GUARDED_BY(mutex_) = false;
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
  std::unique_ptr<ControlServer> control_;
};

}  // namespace quadfs::daemon
