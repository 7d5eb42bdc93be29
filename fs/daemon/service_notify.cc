#include "fs/daemon/service_notify.h"

#include <systemd/sd-daemon.h>

#include <ctime>

namespace quadfs::daemon {
namespace {

void Send(const std::string& words) { static_cast<void>(sd_notify(0, words.c_str())); }

}  // namespace

void NotifyReady(const std::string& status) { Send("READY=1\nSTATUS=" + status); }
void NotifyStatus(const std::string& status) { Send("STATUS=" + status); }
void NotifyReloading() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  Send("RELOADING=1\nMONOTONIC_USEC=" +
       std::to_string(now.tv_sec * 1'000'000 + now.tv_nsec / 1000));
}
void NotifyStopping(const std::string& status) { Send("STOPPING=1\nSTATUS=" + status); }

}  // namespace quadfs::daemon
