#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "fs/daemon/config.h"

namespace quadfs::tools {

/// What every quadfs command ends with.
enum ExitStatus : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,
  kNotReachable = 3,  ///< The daemon, or the hub.
  kIncomplete = 4,    ///< Not finished in time, or not all of it.
};

/// Options of every command.
struct Common {
  std::string config =
      daemon::kDefaultConfigPath;  ///< File, or a directory with quadfs.toml in it.
  std::string state_dir, run_dir;  ///< Empty: as the configuration says.
  bool json = false;
};

struct InitOptions {
  bool single = false;
  std::string cluster = "quadfs", campus = "main", listen, store = "/srv/quadfs", cache,
              cache_bytes;
  std::vector<std::string> advertise;
  std::string mount, node_name;
};
struct TokenOptions {
  std::string role, campus, name, valid = "1d";
};
struct JoinOptions {
  std::vector<std::string> hubs, advertise;
  std::string token_file, listen, store, cache, cache_bytes, mount = "/grid", store_path, name,
                                                             when_cut, timeout = "30s";
};
struct MountOptions {
  std::string options, timeout = "60s";
};
struct UmountOptions {
  bool lazy = false;
  std::string timeout = "5min";
};
struct PathsOptions {
  std::vector<std::string> paths;
  bool background = false;
  std::string until = "campus", timeout;
};

int RunInit(const Common& common, const InitOptions& options);
int RunToken(const Common& common, const TokenOptions& options);
int RunJoin(const Common& common, const JoinOptions& options);
int RunMount(const Common& common, const MountOptions& options);
int RunUmount(const Common& common, const UmountOptions& options);
int RunStatus(const Common& common);
int RunWhere(const Common& common, const PathsOptions& options);
int RunPrefetch(const Common& common, const PathsOptions& options);
int RunSync(const Common& common, const PathsOptions& options);
int RunEvict(const Common& common, const PathsOptions& options);
int RunPin(const Common& common, const PathsOptions& options);
int RunUnpin(const Common& common, const PathsOptions& options);
int RunVersion(const Common& common);

/// Parses the command line and runs the command.
int Main(int argc, char** argv);

}  // namespace quadfs::tools
