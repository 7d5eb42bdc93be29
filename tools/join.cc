// quadfs join: this machine becomes a campus's hub or a node, with a one-time token.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "fs/daemon/campus_file.h"
#include "fs/daemon/enrol_message.h"
#include "fs/daemon/folders.h"
#include "fs/daemon/units.h"
#include "tools/answer.h"
#include "tools/membership.h"
#include "transport/certificates.h"
#include "transport/client.h"

namespace quadfs::tools {
namespace {

constexpr size_t kMaxTokenBytes = size_t{64} << 10;

Result<std::string> ReadToken(const JoinOptions& options) {
  if (!options.token_file.empty()) {
    struct stat status {};
    if (::stat(options.token_file.c_str(), &status) != 0)
      return ErrorFromErrno(errno, options.token_file);
    if ((status.st_mode & 0077U) != 0) {
      return Error(
          ErrorCode::kInvalidArgument,
          options.token_file + " can be read by others; run: chmod 600 " + options.token_file);
    }
    return LoadFile(options.token_file);
  }
  if (::isatty(STDIN_FILENO) == 1) std::fputs("token: ", stderr);
  std::string line;
  std::getline(std::cin, line);
  if (line.size() > kMaxTokenBytes) return Error(ErrorCode::kTooLarge, "that is not a token");
  return line;
}

/// The configuration this machine will have. A hub's machine may become a node as well.
Result<daemon::Config> Wanted(const Common& common, const JoinOptions& options,
                              const transport::JoinToken& token) {
  const bool hub = token.wanted_role == transport::Role::kHub;
  daemon::Config config = BaseConfig(common.config, common.state_dir, common.run_dir);
  if (FileExists(common.config)) {
    config = QUADFS_TRY(daemon::LoadConfig(common.config));
    const bool can_add = !hub && config.hub && !config.node &&
                         config.campus == token.identity.campus_name &&
                         config.cluster == token.identity.cluster;
    if (!can_add) {
      return Error(
          ErrorCode::kExists,
          common.config + " is there already: this machine is a member of campus " + config.campus);
    }
  }
  config.cluster = token.identity.cluster;
  config.campus = token.identity.campus_name;
  uint64_t cache_bytes = 0;
  if (!options.cache_bytes.empty())
    cache_bytes = QUADFS_TRY(daemon::ParseBytes(options.cache_bytes));
  if (hub) {
    if (options.store.empty()) {
      return Error(ErrorCode::kInvalidArgument,
                   "this token is for a campus's hub: --store is needed");
    }
    daemon::Config::Hub& section = config.hub.emplace();
    if (!options.listen.empty()) section.listen = options.listen;
    if (!daemon::IsHostPort(section.listen, false)) {
      return Error(ErrorCode::kInvalidArgument,
                   "--listen " + section.listen + "; allowed: host:port");
    }
    section.advertise = options.advertise;
    if (section.advertise.empty()) {
      section.advertise.push_back(ShortHostName() +
                                  section.listen.substr(section.listen.rfind(':')));
    }
    section.store = options.store;
    if (!options.cache.empty()) section.cache = options.cache;
    if (cache_bytes > 0) section.cache_bytes = cache_bytes;
    section.main = options.hubs;
    return config;
  }
  if (!options.store.empty() || !options.listen.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "this token is for a node: --store and --listen are a hub's");
  }
  daemon::Config::Node& node = config.node.emplace();
  node.name = !token.identity.name.empty() ? token.identity.name
              : !options.name.empty()      ? options.name
                                           : ShortHostName();
  node.mount = options.mount;
  if (!options.cache.empty()) node.cache = options.cache;
  if (cache_bytes > 0) node.cache_bytes = cache_bytes;
  node.hubs = options.hubs;
  node.store_path = options.store_path;
  if (!options.when_cut.empty()) node.when_cut = options.when_cut;
  return config;
}

/// The certificate request; kept, with its key, until it is answered, so that joining can be
/// repeated with the same token when only the answer was lost.
Result<std::string> KeyAndRequest(const transport::TlsFiles& tls, const std::string& request_path) {
  if (FileExists(request_path) && FileExists(tls.key)) return LoadFile(request_path);
  std::error_code ignored;
  std::filesystem::remove(tls.key,
                          ignored);  // Of an attempt that ended before its request was kept.
  std::string csr = QUADFS_TRY(transport::MakeKeyAndRequest(tls.key));
  QUADFS_TRY(StoreFile(request_path, csr, 0600));
  return csr;
}

Result<daemon::EnrolAnswer> Enrol(const JoinOptions& options, const daemon::Config& config,
                                  const daemon::JoinLineParts& line,
                                  const transport::JoinToken& token, const std::string& csr,
                                  Deadline deadline) {
  transport::Client::Options client;
  client.server_name = transport::HubDnsName(line.hub_campus, token.identity.cluster);
  client.addresses = options.hubs;
  const auto hub = QUADFS_TRY(transport::Client::Create(client, token.tls));
  daemon::EnrolRequest request;
  request.csr_pem = csr;
  if (config.hub && token.wanted_role == transport::Role::kHub)
    request.addresses = config.hub->advertise;
  request.name = config.node ? config.node->name : config.campus;
  const auto answer =
      QUADFS_TRY(hub->Call("POST", "/v1/enroll", daemon::Encode(request), deadline));
  return daemon::DecodeEnrolAnswer(answer.body);
}

Result<void> Settle(daemon::Config& config, const transport::TlsFiles& tls,
                    const daemon::EnrolAnswer& answer) {
  QUADFS_TRY(StoreFile(tls.ca, answer.ca_pem, 0644));
  QUADFS_TRY(StoreFile(tls.certificate, answer.certificate_pem, 0644));
  QUADFS_TRY(
      daemon::WriteCampusFile(config.campus_file(), {answer.cluster_name, answer.main_campus}));
  if (answer.identity.role == transport::Role::kHub) {
    config.hub->main = MergedAddresses(config.hub->main, answer.hub_addresses);
    QUADFS_TRY(daemon::MakeFolder(config.hub->store));
  } else {
    config.node->name = answer.identity.name;
    config.node->hubs = MergedAddresses(config.node->hubs, answer.hub_addresses);
    QUADFS_TRY(daemon::MakeFolder(config.node->mount));
  }
  return StoreConfig(config);  // Last: with it the machine is a member.
}

Result<daemon::Config> Join(const Common& common, const JoinOptions& options) {
  for (const std::string& address : options.hubs) {
    if (!daemon::IsHostPort(address, false)) {
      return Error(ErrorCode::kInvalidArgument, "--hub " + address + "; allowed: host:port");
    }
  }
  const auto timeout = QUADFS_TRY(daemon::ParseDuration(options.timeout));
  const std::string text = QUADFS_TRY(ReadToken(options));
  const daemon::JoinLineParts line = QUADFS_TRY(daemon::SplitJoinLine(text));
  const std::string state_dir =
      BaseConfig(common.config, common.state_dir, common.run_dir).state_dir;
  QUADFS_TRY(daemon::MakePrivateFolder(state_dir));
  QUADFS_TRY(daemon::MakePrivateFolder(state_dir + "/tls"));
  const std::string folder = state_dir + "/tls/joining";
  const auto token = QUADFS_TRY(transport::UnpackToken(line.token, folder));
  daemon::Config config = QUADFS_TRY(Wanted(common, options, token));
  QUADFS_TRY(
      daemon::ParseConfig(daemon::WriteConfig(config), config.path));  // Before the token is used.

  const transport::TlsFiles tls =
      token.wanted_role == transport::Role::kHub ? config.tls : config.node_tls();
  const std::string csr = QUADFS_TRY(KeyAndRequest(tls, folder + "/request.pem"));
  const auto answer =
      QUADFS_TRY(Enrol(options, config, line, token, csr, Deadline::After(timeout)));
  QUADFS_TRY(Settle(config, tls, answer));
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);  // Harmless if it stays: the token is used up.
  return config;
}

}  // namespace

int RunJoin(const Common& common, const JoinOptions& options) {
  const auto config = Join(common, options);
  if (!config.ok()) return Report(common, "join", config.error());
  const bool node = config->node.has_value();
  const std::string what = node ? "node " + config->node->name + " of campus " + config->campus
                                : "campus " + config->campus;
  return Finish(
      common,
      {{"ok", true},
       {"cluster", config->cluster},
       {"campus", config->campus},
       {"name", node ? config->node->name : config->campus},
       {"config", config->path}},
      "joined as " + what + "; wrote " + config->path + "; now: " +
          (config->path == daemon::kDefaultConfigPath ? "systemctl enable --now quadfsd"
                                                      : "quadfsd --config " + config->path));
}

}  // namespace quadfs::tools
