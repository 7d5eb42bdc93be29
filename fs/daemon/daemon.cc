#include "fs/daemon/daemon.h"

#include <unistd.h>

#include <set>
#include <thread>

#include "fs/daemon/folders.h"
#include "fs/daemon/log.h"

namespace quadfs::daemon {
namespace {

constexpr std::chrono::seconds kPredecessorEnds{60};
constexpr std::chrono::milliseconds kLookAgain{50};

/// Keys that Reload takes over; every other key needs a restart.
const std::set<std::string>& ReloadableKeys() {
  static const std::set<std::string> keys{"log_level", "writeback.limit_bytes_per_second"};
  return keys;
}

}  // namespace

Daemon::Daemon(Config config, Options options)
    : options_(std::move(options)), config_(std::move(config)) {}

Daemon::~Daemon() { Stop(); }

Result<void> Daemon::TakeLocks(const std::stop_token& stop) {
  const Config config = this->config();
  QUADFS_TRY(MakePrivateFolder(config.state_dir));
  QUADFS_TRY(MakeFolder(config.run_dir));
  const Deadline deadline = Deadline::After(kPredecessorEnds);
  for (;;) {
    auto lock = LockFile(config.state_dir + "/quadfsd.lock");
    if (lock.ok()) {
      lock_ = std::move(*lock);
      return {};
    }
    // One that is ending takes its socket away first and its lock last: that one is waited for.
    const bool ending = lock.error().code() == ErrorCode::kBusy &&
                        ::access(config.socket_path().c_str(), F_OK) != 0;
    if (!ending || deadline.Passed() || stop.stop_requested()) return std::move(lock).error();
    std::this_thread::sleep_for(kLookAgain);
  }
}

Result<void> Daemon::Start(std::stop_token stop) {
  const Config config = this->config();
  QUADFS_TRY(TakeLocks(stop));
  QUADFS_TRY(CheckFiles(config));
  control_ = QUADFS_TRY(ControlServer::Start(config.socket_path(), *this));
  if (config.hub) {
    std::shared_ptr<HubRole> hub = QUADFS_TRY(HubRole::Start(config));
    const MutexLock lock(mutex_);
    hub_ = hub;
  }
  if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while starting");
  if (config.node) {
    const auto hub = this->hub();
    Enrolment* local = hub && hub->primary() ? &hub->enrolment() : nullptr;
    std::shared_ptr<NodeRole> node = QUADFS_TRY(
        NodeRole::Start(config, local, options_.mount_options, options_.on_unmounted, stop));
    const MutexLock lock(mutex_);
    node_ = node;
  }
  const MutexLock lock(mutex_);
  ready_ = true;
  return {};
}

void Daemon::Stop() {
  std::shared_ptr<HubRole> hub;
  std::shared_ptr<NodeRole> node;
  {
    const MutexLock lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    ready_ = false;
    hub = hub_;
    node = node_;
  }
  // Verbs under way end first: they use the roles.
  if (control_) control_->Stop();
  if (node) node->Stop();
  if (hub) hub->Stop();
  const MutexLock lock(mutex_);
  node_.reset();
  hub_.reset();
}

Result<void> Daemon::Reload() {
  const Config old = config();
  Config next = QUADFS_TRY(LoadConfig(old.path));
  QUADFS_TRY(CheckFiles(next));
  const auto before = FlattenConfig(old);
  auto after = FlattenConfig(next);
  for (const auto& [key, value] : before) after.insert({key, ""});  // Keys that are gone.
  for (const auto& [key, value] : after) {
    const auto known = before.find(key);
    const std::string was = known == before.end() ? "" : known->second;
    if (was == value) continue;
    if (ReloadableKeys().count(key) > 0) {
      LogInfo("reloaded", {{"key", key}, {"was", was}, {"is", value}});
    } else {
      LogWarn("needs a restart", {{"key", key}, {"is", was}, {"file says", value}});
    }
  }
  SetLogLevel(next.log_level);
  if (const auto hub = this->hub()) {
    hub->SetLimit(next.writeback.limit_bytes_per_second);
    hub->ResetConnections();
  }
  if (const auto node = this->node()) {
    node->SetLimit(next.writeback.limit_bytes_per_second);
    node->ResetConnections();
  }
  const MutexLock lock(mutex_);
  config_.log_level = next.log_level;
  config_.writeback = next.writeback;
  return {};
}

Config Daemon::config() const {
  const MutexLock lock(mutex_);
  return config_;
}
std::shared_ptr<HubRole> Daemon::hub() const {
  const MutexLock lock(mutex_);
  return hub_;
}
std::shared_ptr<NodeRole> Daemon::node() const {
  const MutexLock lock(mutex_);
  return node_;
}
bool Daemon::ready() const {
  const MutexLock lock(mutex_);
  return ready_;
}

std::string Daemon::Summary() const {
  std::string text;
  if (const auto hub = this->hub()) {
    text += (hub->primary() ? "main's hub at " : "hub at ") + hub->address();
  }
  if (const auto node = this->node()) {
    text += (text.empty() ? "" : ", ") + std::string("node ") + node->name() + " at " +
            node->mount_point();
  }
  return text.empty() ? "starting" : text;
}

}  // namespace quadfs::daemon
