// quadfsd: one daemon, whose roles come from quadfs.toml. Here: arguments, signals, the order of
// life.
#include <pthread.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <thread>

#include "fs/daemon/daemon.h"
#include "fs/daemon/log.h"
#include "fs/daemon/service_notify.h"
#include "fs/daemon/version.h"

namespace {

using quadfs::daemon::Daemon;
using quadfs::daemon::LogError;
using quadfs::daemon::LogInfo;
using quadfs::daemon::LogWarn;

constexpr rlim_t kWantedFiles = 1 << 20;

/// A thread of ours tells the main thread with SIGUSR1 that there is something to look at.
void Wake() { ::kill(::getpid(), SIGUSR1); }

void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t hard = limit.rlim_max;
  limit.rlim_cur = limit.rlim_max = std::max(hard, kWantedFiles);
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  limit.rlim_cur = limit.rlim_max = hard;  // Not root: what we may.
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

sigset_t BlockSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return set;
}

/// The life of the daemon, from signal to signal.
class Life {
 public:
  Life(quadfs::daemon::Config config, const std::string& mount_options)
      : mount_(config.node ? config.node->mount : ""),
        also_hub_(config.hub.has_value()),
        daemon_(std::move(config), {mount_options, [this] {
                                      unmounted_ = true;
                                      Wake();
                                    }}) {}

  int Run(const sigset_t& signals) {
    starter_ = std::jthread([this](std::stop_token stop) { Start(std::move(stop)); });
    while (!finished_) {
      int number = 0;
      if (::sigwait(&signals, &number) != 0) continue;
      if (number == SIGTERM || number == SIGINT) OnTerminate();
      if (number == SIGHUP) OnReload();
      if (number == SIGUSR1) OnWake();
    }
    return status_;
  }

 private:
  void Start(std::stop_token stop) {
    auto started = daemon_.Start(std::move(stop));
    if (started.ok()) {
      LogInfo("ready", {{"as", daemon_.Summary()}});
      quadfs::daemon::NotifyReady(daemon_.Summary());
    } else if (!stopping_) {
      LogError("cannot start", {{"error", started.error().message()}});
      failed_ = true;
    }
    started_ = true;
    Wake();
  }

  void OnTerminate() {
    if (!stopping_) return Stop("asked to stop");
    // Asked twice: what is not published stays dirty in the cache, and is published at the next
    // start.
    LogWarn("stopping at once");
    if (!mount_.empty() && daemon_.node()) static_cast<void>(::umount2(mount_.c_str(), MNT_DETACH));
    std::_Exit(1);
  }

  void OnReload() {
    quadfs::daemon::NotifyReloading();
    if (auto reloaded = daemon_.Reload(); !reloaded.ok()) {
      LogError("not reloaded, everything stays as it was", {{"error", reloaded.error().message()}});
    }
    quadfs::daemon::NotifyReady(daemon_.Summary());
  }

  void OnWake() {
    if (stopped_) {
      finished_ = true;
    } else if (failed_ && !stopping_) {
      status_ = 1;
      Stop("");
    } else if (unmounted_ && !stopping_ && !also_hub_) {
      Stop("unmounted");
    }
  }

  void Stop(const std::string& why) {
    stopping_ = true;
    if (!why.empty()) LogInfo("stopping", {{"reason", why}});
    quadfs::daemon::NotifyStopping("publishing what was changed, unmounting");
    starter_.request_stop();
    stopper_ = std::jthread([this] {
      starter_.join();
      daemon_.Stop();
      LogInfo("stopped");
      stopped_ = true;
      Wake();
    });
  }

  const std::string mount_;
  const bool also_hub_;
  std::atomic<bool> stopping_{false}, started_{false}, failed_{false}, unmounted_{false},
      stopped_{false};
  bool finished_ = false;
  int status_ = 0;
  Daemon daemon_;
  std::jthread starter_, stopper_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The quadfs daemon: hub, node or both, as quadfs.toml says.");
  std::string config_path = quadfs::daemon::kDefaultConfigPath;
  std::string log_file;
  std::string mount_options;
  app.add_option("--config,-c", config_path, "quadfs.toml")->capture_default_str();
  app.add_option("--log-file", log_file, "write the log there instead of standard error");
  app.add_option("--mount-options,-o", mount_options, "as in fstab: ro,nosuid,…");
  bool foreground = true;  // It never leaves it; service managers may still say so.
  app.add_flag("--foreground,-f", foreground, "stay in the foreground (it always does)");
  app.set_version_flag("--version", std::string("quadfsd ") + quadfs::daemon::kVersion);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  const sigset_t signals = BlockSignals();
  ::umask(0022);
  RaiseFileLimit();
  auto config = quadfs::daemon::LoadConfig(config_path);
  if (!config.ok()) {
    std::fprintf(stderr, "quadfsd: %s\n", config.error().message().c_str());
    return 1;
  }
  if (auto log = quadfs::daemon::OpenLog(config->log_level, log_file); !log.ok()) {
    std::fprintf(stderr, "quadfsd: %s\n", log.error().message().c_str());
    return 1;
  }
  LogInfo("starting", {{"version", quadfs::daemon::kVersion},
                       {"config", config_path},
                       {"pid", std::to_string(::getpid())}});
  Life life(std::move(*config), mount_options);
  return life.Run(signals);
}
