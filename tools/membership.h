#pragma once

#include <string>
#include <vector>

#include "fs/daemon/config.h"
#include "transport/base/result.h"

namespace quadfs::tools {

/// Host name without its domain, as a node's default name.
std::string ShortHostName();

/// The configuration to begin with: directories from the options or the defaults.
daemon::Config BaseConfig(const std::string& config_path, const std::string& state_dir,
                          const std::string& run_dir);

/// Writes quadfs.toml beside itself and renames it; directories are made.
Result<void> StoreConfig(const daemon::Config& config);

/// Writes a file atomically with this mode. Errors: kIo, kAccess, …
Result<void> StoreFile(const std::string& path, const std::string& content, unsigned mode);
/// Errors: kNotFound, kIo.
Result<std::string> LoadFile(const std::string& path);
bool FileExists(const std::string& path);

/// `first`, then those of `more` that it lacks.
std::vector<std::string> MergedAddresses(std::vector<std::string> first,
                                         const std::vector<std::string>& more);

}  // namespace quadfs::tools
