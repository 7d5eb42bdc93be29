// quadfs init: a new cluster, whose main hub is this machine.
#include "fs/daemon/campus_file.h"
#include "fs/daemon/folders.h"
#include "fs/daemon/units.h"
#include "tools/answer.h"
#include "tools/membership.h"
#include "transport/base/random.h"
#include "transport/certificates.h"

namespace quadfs::tools {
namespace {

constexpr std::chrono::hours kHubValidity{24 * 3650};

std::string PortOf(const std::string& address) { return address.substr(address.rfind(':') + 1); }

Result<daemon::Config> Wanted(const Common& common, const InitOptions& options) {
  daemon::Config config = BaseConfig(common.config, common.state_dir, common.run_dir);
  config.campus = options.campus;
  config.cluster = RandomHex(8);
  daemon::Config::Hub& hub = config.hub.emplace();
  hub.listen = !options.listen.empty() ? options.listen
               : options.single        ? "127.0.0.1:7440"
                                       : "0.0.0.0:7440";
  if (!daemon::IsHostPort(hub.listen, /*allow_zero=*/false)) {
    return Error(ErrorCode::kInvalidArgument, "--listen " + hub.listen + "; allowed: host:port");
  }
  hub.advertise = options.advertise;
  if (hub.advertise.empty()) {
    hub.advertise.push_back(options.single ? "127.0.0.1:" + PortOf(hub.listen)
                                           : ShortHostName() + ":" + PortOf(hub.listen));
  }
  hub.store = options.store;
  const std::string cache = options.cache.empty() ? "/var/cache/quadfs" : options.cache;
  hub.cache = cache + "/hub";
  uint64_t cache_bytes = 0;
  if (!options.cache_bytes.empty()) {
    cache_bytes = QUADFS_TRY(daemon::ParseBytes(options.cache_bytes));
    hub.cache_bytes = cache_bytes;
  }
  if (options.single || !options.mount.empty()) {
    daemon::Config::Node& node = config.node.emplace();
    node.name = options.node_name.empty() ? ShortHostName() : options.node_name;
    node.mount = options.mount.empty() ? "/grid" : options.mount;
    node.cache = cache + "/node";
    if (cache_bytes > 0) node.cache_bytes = cache_bytes;
    node.hubs = {"127.0.0.1:" + PortOf(hub.listen)};
    node.store_path = hub.store;
  }
  return config;
}

Result<void> MakeCertificates(const daemon::Config& config) {
  const auto authority =
      QUADFS_TRY(transport::CertificateAuthority::Create(config.ca_dir(), config.cluster));
  const std::string csr = QUADFS_TRY(transport::MakeKeyAndRequest(config.tls.key));
  transport::PeerIdentity self;
  self.cluster = config.cluster;
  self.role = self.wanted_role = transport::Role::kHub;
  self.campus = kMainCampus;
  self.campus_name = self.name = config.campus;
  const std::string certificate = QUADFS_TRY(authority.Sign(csr, self, kHubValidity));
  QUADFS_TRY(StoreFile(config.tls.certificate, certificate, 0644));
  return StoreFile(config.tls.ca, authority.certificate_pem(), 0644);
}

Result<daemon::Config> Init(const Common& common, const InitOptions& options) {
  if (FileExists(common.config)) {
    return Error(ErrorCode::kExists,
                 common.config + " is there already; this machine belongs to a cluster");
  }
  const daemon::Config config = QUADFS_TRY(Wanted(common, options));
  // The whole file is checked before anything is made.
  QUADFS_TRY(daemon::ParseConfig(daemon::WriteConfig(config), config.path));
  QUADFS_TRY(daemon::MakePrivateFolder(config.state_dir));
  QUADFS_TRY(daemon::MakePrivateFolder(config.state_dir + "/tls"));
  QUADFS_TRY(daemon::MakeFolder(config.hub->store));
  if (config.node) QUADFS_TRY(daemon::MakeFolder(config.node->mount));
  QUADFS_TRY(MakeCertificates(config));
  QUADFS_TRY(daemon::WriteCampusFile(config.campus_file(), {options.cluster, config.campus}));
  QUADFS_TRY(StoreConfig(config));  // Last: with it the machine is a member.
  return config;
}

}  // namespace

int RunInit(const Common& common, const InitOptions& options) {
  const auto config = Init(common, options);
  if (!config.ok()) return Report(common, "init", config.error());
  const std::string start = config->path == daemon::kDefaultConfigPath
                                ? "systemctl enable --now quadfsd"
                                : "quadfsd --config " + config->path;
  return Finish(common,
                {{"ok", true},
                 {"cluster", config->cluster},
                 {"campus", config->campus},
                 {"config", config->path},
                 {"store", config->hub->store},
                 {"listen", config->hub->listen}},
                "cluster " + options.cluster + " (" + config->cluster + ") made, campus " +
                    config->campus + ", archive " + config->hub->store + "\nwrote " + config->path +
                    "; now: " + start);
}

}  // namespace quadfs::tools
