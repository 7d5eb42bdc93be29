#pragma once

#include <string>

namespace quadfs::daemon {

/// Words to the service manager (NOTIFY_SOCKET); nothing happens without one.
void NotifyReady(const std::string& status);
void NotifyStatus(const std::string& status);
void NotifyReloading();
void NotifyStopping(const std::string& status);

}  // namespace quadfs::daemon
