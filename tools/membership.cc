#include "tools/membership.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "fs/daemon/folders.h"
#include "transport/private_file.h"

namespace quadfs::tools {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::string ShortHostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "node";
  const std::string whole(name.data());
  return whole.substr(0, whole.find('.'));
}

daemon::Config BaseConfig(const std::string& config_path, const std::string& state_dir,
                          const std::string& run_dir) {
  daemon::Config config;
  config.path = config_path;
  if (!state_dir.empty()) config.state_dir = state_dir;
  if (!run_dir.empty()) config.run_dir = run_dir;
  const std::string tls = config.state_dir + "/tls";
  config.tls = {tls + "/this.crt", tls + "/this.key", tls + "/ca.crt"};
  return config;
}

Result<void> StoreConfig(const daemon::Config& config) {
  const std::string text = daemon::WriteConfig(config);
  // What we write we must be able to read: an option that the file cannot hold fails here.
  if (auto parsed = daemon::ParseConfig(text, config.path); !parsed.ok()) {
    return std::move(parsed).error();
  }
  QUADFS_TRY(daemon::MakeFolder(FolderOf(config.path)));
  return StoreFile(config.path, text, 0644);
}

Result<void> StoreFile(const std::string& path, const std::string& content, unsigned mode) {
  return transport::ReplaceFile(path, content, mode);
}

Result<std::string> LoadFile(const std::string& path) {
  return transport::ReadSmallFile(path, kMaxFileBytes);
}

bool FileExists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::vector<std::string> MergedAddresses(std::vector<std::string> first,
                                         const std::vector<std::string>& more) {
  for (const std::string& address : more) {
    if (std::find(first.begin(), first.end(), address) == first.end()) first.push_back(address);
  }
  return first;
}

}  // namespace quadfs::tools
