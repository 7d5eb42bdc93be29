#include "fs/daemon/node_role.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "fs/daemon/folders.h"
#include "fs/daemon/log.h"
#include "transport/certificates.h"
#include "transport/identity.h"
#include "transport/private_file.h"

namespace quadfs::daemon {
namespace {

constexpr std::chrono::seconds kStartAttempt{10};
constexpr std::chrono::milliseconds kRetryPause{500};

bool WorthRetrying(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kTimedOut ||
         code == ErrorCode::kStale;
}

/// A killed daemon leaves a mount that answers ENOTCONN: make room for ours.
void DetachDeadMount(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 || errno != ENOTCONN) return;
  if (::umount2(path.c_str(), MNT_DETACH) == 0) LogInfo("dead mount detached", {{"path", path}});
}

}  // namespace

/// What the replica tells goes to the data plane and to the mount, as far as they are there.
class NodeRole::Listener final : public metadata::ChangeListener {
 public:
  explicit Listener(NodeRole& role) : role_(role) {}
  void Attach(fs::NodeData* data) { data_.store(data); }

  void OnChange(const metadata::Change& change) override {
    if (fs::NodeData* data = data_.load()) data->OnChange(change);
    if (const auto mount = role_.mount()) mount->OnChange(change);
  }
  void OnReset() override {
    if (const auto mount = role_.mount()) mount->OnReset();
  }
  void OnRefused(const metadata::Operation& operation, const Error& why) override {
    LogWarn("the hub refused a change made here by delegation",
            {{"inode", std::to_string(operation.inode.value)},
             {"name", operation.name},
             {"why", why.ToString()}});
    if (const auto mount = role_.mount()) mount->OnRefused(operation, why);
  }
  void OnMessage(const metadata::Message& message) override {
    if (fs::NodeData* data = data_.load()) data->OnMessage(message);
  }
  void OnLink(bool connected) override { LogInfo(connected ? "hub reached" : "hub lost"); }

 private:
  NodeRole& role_;
  std::atomic<fs::NodeData*> data_{nullptr};
};

NodeRole::NodeRole() : listener_(std::make_unique<Listener>(*this)) {}
NodeRole::~NodeRole() { Stop(); }

Result<std::unique_ptr<NodeRole>> NodeRole::Start(const Config& config, Enrolment* local,
                                                  const std::string& mount_options,
                                                  std::function<void()> on_unmounted,
                                                  std::stop_token stop) {
  std::unique_ptr<NodeRole> role(new NodeRole());
  role->on_unmounted_ = std::move(on_unmounted);
  auto done = role->Open(config, local);
  if (done.ok()) done = role->WaitForTree(std::move(stop));
  if (done.ok()) done = role->Mount(mount_options);
  if (!done.ok()) return std::move(done).error().Within("node");
  return role;
}

Result<void> NodeRole::EnsureEnrolled(const Config& config, Enrolment* local) {
  const transport::TlsFiles tls = config.node_tls();
  if (::access(tls.certificate.c_str(), F_OK) == 0) return {};
  if (local == nullptr) {
    return config.Complaint("node",
                            "this machine has no certificate for a node yet; run quadfs join "
                            "here with a token for one");
  }
  ::unlink(tls.key.c_str());  // Of an attempt that got no certificate: worth nothing.
  const std::string csr = QUADFS_TRY(transport::MakeKeyAndRequest(tls.key));
  const EnrolAnswer answer = QUADFS_TRY(
      local->EnrolLocalNode(config.node->name, csr, Deadline::After(std::chrono::seconds(30))));
  QUADFS_TRY(transport::ReplaceFile(tls.certificate, answer.certificate_pem, 0644));
  LogInfo("node enrolled",
          {{"node", answer.identity.name}, {"id", std::to_string(answer.identity.node.value)}});
  return {};
}

Result<void> NodeRole::Open(const Config& config, Enrolment* local) {
  const Config::Node& node = *config.node;
  QUADFS_TRY(EnsureEnrolled(config, local));
  const transport::TlsFiles tls = config.node_tls();
  const transport::PeerIdentity self = QUADFS_TRY(transport::ReadIdentity(tls.certificate));
  if (self.role != transport::Role::kNode || self.name != node.name ||
      self.campus_name != config.campus || self.cluster != config.cluster) {
    return config.Complaint("node.name", tls.certificate + " is not the certificate of node " +
                                             node.name + " at campus " + config.campus);
  }
  name_ = node.name;
  QUADFS_TRY(MakePrivateFolder(config.state_dir));
  QUADFS_TRY(MakePrivateFolder(node.cache));
  local_ = QUADFS_TRY(metadata::LocalStore::Open(
      config.state_dir + "/local-node", {"cache", "journal", "writeback", "node", "held"}));
  cache_index_ = std::make_unique<IndexAdapter>(*local_, "cache");
  cache::BlockCache::Options cache;
  cache.directory = node.cache;
  cache.capacity_bytes = node.cache_bytes;
  cache.free_floor_bytes = node.free_floor_bytes;
  cache_ = QUADFS_TRY(cache::BlockCache::Open(cache, *cache_index_));

  transport::Client::Options hub;
  hub.server_name = transport::HubDnsName(config.campus, config.cluster);
  hub.addresses = node.hubs;
  hub_ = QUADFS_TRY(transport::Client::Create(hub, tls));
  metadata::NodeReplica::Options replica;
  replica.directory = config.state_dir + "/replica";
  replica.cluster = config.cluster;
  replica.cluster = config.cluster;
  replica.campus = self.campus;
  replica.node = self.node;
  replica_ = QUADFS_TRY(metadata::NodeReplica::Open(replica, *local_, *hub_, *listener_));
  fs::NodeData::Options data;
  data.campus = self.campus;
  data.node = self.node;
  data.node_name = node.name;
  data.limit_bytes_per_second = config.writeback.limit_bytes_per_second;
  data_ = QUADFS_TRY(fs::NodeData::Create(data, *local_, *cache_, *replica_, *hub_));
  listener_->Attach(data_.get());

  mount_options_.mount_point = node.mount;
  mount_options_.node_name = node.name;
  mount_options_.node = self.node;
  mount_options_.campus = self.campus;
  mount_options_.store_path = node.store_path;
  mount_options_.deadline = node.deadline_ms;
  mount_options_.wait_when_cut = node.when_cut == "wait";
  mount_options_.allow_other = node.allow_other;
  mount_options_.passthrough = node.passthrough;
  return {};
}

Result<void> NodeRole::WaitForTree(std::stop_token stop) {
  std::string said;
  for (;;) {
    auto started = replica_->Start(Deadline::After(kStartAttempt));
    if (started.ok()) return {};
    if (!WorthRetrying(started.error().code())) return started;
    // The hub may come up after this machine: a boot order is not an error.
    if (said != started.error().message()) {
      said = started.error().message();
      LogWarn("waiting for the hub", {{"reason", said}});
    }
    MutexLock lock(mutex_);
    std::stop_callback wake(stop, [this] { unmounted_.NotifyAll(); });
    if (!stop.stop_requested()) unmounted_.WaitFor(mutex_, kRetryPause);
    if (stop.stop_requested())
      return Error(ErrorCode::kCancelled, "stopped while waiting for the hub");
  }
}

std::shared_ptr<fs::NodeMount> NodeRole::mount() const {
  const MutexLock lock(mutex_);
  return mount_;
}

Result<void> NodeRole::Mount(const std::string& extra_options) {
  fs::NodeMount::Options options = mount_options_;
  options.extra_options = extra_options;
  DetachDeadMount(options.mount_point);
  std::shared_ptr<fs::NodeMount> mount =
      QUADFS_TRY(fs::NodeMount::Create(options, *local_, *cache_, *replica_, *data_));
  {
    const MutexLock lock(mutex_);
    if (stopped_) return Error(ErrorCode::kCancelled, "the daemon stops");
    if (mount_) return Error(ErrorCode::kBusy, options.mount_point + " is mounted already");
    mount_ = mount;
  }
  if (auto mounted = mount->Mount(); !mounted.ok()) {
    const MutexLock lock(mutex_);
    mount_.reset();
    return mounted;
  }
  LogInfo("mounted", {{"path", options.mount_point}, {"options", extra_options}});
  server_ = std::jthread([this, mount] { Serve(mount); });
  mount->Recover();
  return {};
}

void NodeRole::Serve(const std::shared_ptr<fs::NodeMount>& mount) {
  if (auto served = mount->Run(); !served.ok()) {
    LogError("the mount ended", {{"error", served.error().ToString()}});
  }
  mount->Unmount();  // Publishes what plain umount left dirty.
  LogInfo("unmounted", {{"path", mount_options_.mount_point}});
  bool stopped = false;
  {
    const MutexLock lock(mutex_);
    mount_.reset();
    stopped = stopped_;
    unmounted_.NotifyAll();
  }
  if (!stopped && on_unmounted_) on_unmounted_();
}

Result<void> NodeRole::Unmount(bool lazy, Deadline deadline) {
  const auto mount = this->mount();
  const std::string& path = mount_options_.mount_point;
  if (!mount) return Error(ErrorCode::kNotFound, path + " is not mounted");
  if (::umount2(path.c_str(), lazy ? MNT_DETACH : 0) != 0) {
    if (errno == EBUSY) {
      return Error(ErrorCode::kBusy,
                   path + " is in use; fuser -vm " + path +
                       " shows by whom, quadfs umount --lazy does not wait for them");
    }
    return ErrorFromErrno(errno, "umount " + path);
  }
  MutexLock lock(mutex_);
  while (mount_) {
    if (!unmounted_.WaitUntil(mutex_, deadline.at())) {
      return Error(ErrorCode::kTimedOut, path + ": still publishing what was changed");
    }
  }
  return {};
}

void NodeRole::Stop() {
  std::shared_ptr<fs::NodeMount> mount;
  {
    const MutexLock lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
    mount = mount_;
  }
  if (mount) mount->Unmount();
  mount.reset();
  if (server_.joinable()) server_.join();
  listener_->Attach(nullptr);
  if (data_) data_->Stop();
  if (replica_) replica_->Stop();
  if (cache_) cache_->Flush();
  if (local_) {
    if (auto synced = local_->Sync(); !synced.ok()) {
      LogError("local rows not synced", {{"error", synced.error().ToString()}});
    }
  }
}

}  // namespace quadfs::daemon
