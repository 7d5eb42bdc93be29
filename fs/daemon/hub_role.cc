#include "fs/daemon/hub_role.h"

#include "fs/daemon/campus_file.h"
#include "fs/daemon/folders.h"
#include "fs/daemon/log.h"
#include "transport/identity.h"

namespace quadfs::daemon {

/// What the replica tells goes to the data plane, once there is one.
class HubRole::Listener final : public metadata::ChangeListener {
 public:
  void Attach(fs::HubData* data) { data_.store(data); }

  void OnChange(const metadata::Change& change) override {
    if (fs::HubData* data = data_.load()) data->OnChange(change);
  }
  void OnReset() override {
    if (fs::HubData* data = data_.load()) data->OnReset();
  }
  void OnMessage(const metadata::Message& message) override {
    if (fs::HubData* data = data_.load()) data->OnMessage(message);
  }
  void OnLink(bool connected) override { LogInfo(connected ? "main reached" : "main lost"); }

 private:
  std::atomic<fs::HubData*> data_{nullptr};
};

HubRole::HubRole() : listener_(std::make_unique<Listener>()) {}
HubRole::~HubRole() { Stop(); }

Result<std::unique_ptr<HubRole>> HubRole::Start(const Config& config) {
  std::unique_ptr<HubRole> role(new HubRole());
  if (auto opened = role->Open(config); !opened.ok())
    return std::move(opened).error().Within("hub");
  if (auto serving = role->Serve(config); !serving.ok()) {
    return std::move(serving).error().Within("hub");
  }
  return role;
}

Result<void> HubRole::Open(const Config& config) {
  const transport::PeerIdentity self = QUADFS_TRY(transport::ReadIdentity(config.tls.certificate));
  if (self.role != transport::Role::kHub || self.campus_name != config.campus ||
      self.cluster != config.cluster) {
    return config.Complaint("tls.certificate", config.tls.certificate +
                                                   " is not the certificate of hub " +
                                                   config.campus + " in cluster " + config.cluster);
  }
  const CampusFile known = QUADFS_TRY(ReadCampusFile(config.campus_file()));
  QUADFS_TRY(MakePrivateFolder(config.state_dir));
  QUADFS_TRY(MakePrivateFolder(config.hub->cache));
  local_ = QUADFS_TRY(metadata::LocalStore::Open(config.state_dir + "/local-hub",
                                                 {"cache", "store", "token", "writeback", "hub"}));
  cache_index_ = std::make_unique<IndexAdapter>(*local_, "cache");
  store_index_ = std::make_unique<IndexAdapter>(*local_, "store");
  cache::BlockCache::Options cache;
  cache.directory = config.hub->cache;
  cache.capacity_bytes = config.hub->cache_bytes;
  cache_ = QUADFS_TRY(cache::BlockCache::Open(cache, *cache_index_));
  store_ = QUADFS_TRY(cache::TreeStore::Open(config.hub->store, *store_index_));

  if (!config.hub->primary()) {
    transport::Client::Options upstream;
    upstream.server_name = transport::HubDnsName(known.main_campus, config.cluster);
    upstream.addresses = config.hub->main;
    upstream_ = QUADFS_TRY(transport::Client::Create(upstream, config.tls));
  }
  metadata::Hub::Options hub;
  hub.directory = config.state_dir + "/meta";
  hub.cluster = config.cluster;
  hub.campus = self.campus;
  hub.campus_name = config.campus;
  hub.advertise = config.hub->advertise;
  hub_ = QUADFS_TRY(metadata::Hub::Open(hub, upstream_.get(), *listener_));

  fs::HubData::Options data;
  data.campus = self.campus;
  data.campus_name = config.campus;
  data.primary = primary();
  data.limit_bytes_per_second = config.writeback.limit_bytes_per_second;
  data_ = QUADFS_TRY(fs::HubData::Create(data, *local_, *cache_, *store_, *hub_, upstream_.get()));

  const EnrolmentOptions enrolment{config.ca_dir(), known.cluster_name, config.campus,
                                   config.hub->advertise};
  enrolment_ = primary() ? QUADFS_TRY(MakeMainEnrolment(enrolment, *hub_, *local_))
                         : MakeBranchEnrolment(enrolment, *upstream_);
  return {};
}

Result<void> HubRole::Serve(const Config& config) {
  transport::Server::Options options;
  options.address = config.hub->listen;
  options.on_refused = [](const std::string& address, const std::string& reason) {
    LogWarn("peer refused", {{"address", address}, {"reason", reason}});
  };
  server_ = QUADFS_TRY(transport::Server::Create(options, config.tls));
  hub_->AddRoutes(*server_);
  data_->AddRoutes(*server_);
  enrolment_->AddRoutes(*server_);
  listener_->Attach(data_.get());
  QUADFS_TRY(hub_->Start());
  if (primary()) QUADFS_TRY(EnterMainCampus(config));
  QUADFS_TRY(data_->Start());
  QUADFS_TRY(server_->Start());
  listen_ = config.hub->listen;
  LogInfo("hub serves", {{"campus", config.campus},
                         {"address", address()},
                         {"role", primary() ? "main" : "branch"},
                         {"store", config.hub->store}});
  return {};
}

Result<void> HubRole::EnterMainCampus(const Config& config) {
  const auto member = hub_->view().FindMember(kMainCampus, NodeId());
  if (member.ok() && member->addresses == config.hub->advertise) return {};
  metadata::Member self;
  self.campus = kMainCampus;
  self.name = config.campus;
  self.addresses = config.hub->advertise;
  auto entered = hub_->Enroll(self, Deadline::After(std::chrono::seconds(30)));
  if (!entered.ok()) return std::move(entered).error().Within("entering campus " + config.campus);
  return {};
}

std::string HubRole::address() const {
  const size_t colon = listen_.rfind(':');
  return listen_.substr(0, colon) + ":" + std::to_string(server_ ? server_->port() : 0);
}

void HubRole::SetLimit(uint64_t bytes_per_second) {
  if (fs::WriteBack* queue = data_->write_back()) queue->SetLimit(bytes_per_second);
}

void HubRole::ResetConnections() {
  if (upstream_) upstream_->Reset();
}

void HubRole::Stop() {
  if (stopped_.exchange(true)) return;
  if (data_) data_->Stop();  // First: what waits in its requests ends, so that the server can.
  if (server_) server_->Stop();
  if (hub_) hub_->Stop();
  listener_->Attach(nullptr);
  if (cache_) cache_->Flush();
  if (local_) {
    if (auto synced = local_->Sync(); !synced.ok()) {
      LogError("local rows not synced", {{"error", synced.error().ToString()}});
    }
  }
}

}  // namespace quadfs::daemon
