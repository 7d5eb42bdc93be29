// quadfs.toml on the disk: reading it, checking what it points at, and writing one.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "fs/daemon/config.h"
#include "fs/daemon/units.h"
#include "transport/base/unique_fd.h"

namespace quadfs::daemon {
namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}
std::string Quoted(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& item : list) out += (out.empty() ? "" : ", ") + Quoted(item);
  return "[" + out + "]";
}

Result<void> CheckFile(const Config& config, const std::string& key, const std::string& path,
                       bool secret) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return config.Complaint(key, path + ": " + ErrorFromErrno(errno, "stat").message() +
                                     "; allowed: a file; make it with quadfs init or quadfs join");
  }
  if (!S_ISREG(status.st_mode)) return config.Complaint(key, path + " is not a file");
  if (::access(path.c_str(), R_OK) != 0) {
    return config.Complaint(key, path + " cannot be read by this user; start as its owner or root");
  }
  if (secret && (status.st_mode & 0077U) != 0) {
    return config.Complaint(
        key, path + " can be reached by others; allowed: mode 0600; run: chmod 600 " + path);
  }
  return {};
}

}  // namespace

Result<Config> LoadConfig(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT) {
      return Error(ErrorCode::kNotFound,
                   path + ": no such file; make one with quadfs init or quadfs join");
    }
    return ErrorFromErrno(errno, path);
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) == 0 && (status.st_mode & 0002U) != 0) {
    return Error(ErrorCode::kInvalidArgument,
                 path + ": anyone may change it; allowed: mode 0644; run: chmod o-w " + path);
  }
  std::string text;
  std::string chunk(65536, '\0');
  for (;;) {
    const ssize_t count = ::read(fd.get(), chunk.data(), chunk.size());
    if (count < 0) return ErrorFromErrno(errno, path);
    if (count == 0) break;
    text.append(chunk, 0, static_cast<size_t>(count));
    if (text.size() > kMaxConfigBytes) {
      return Error(ErrorCode::kTooLarge, path + ": more than 1 MiB is not a quadfs.toml");
    }
  }
  return ParseConfig(text, path);
}

Result<void> CheckFiles(const Config& config) {
  auto checked = CheckFile(config, "tls.certificate", config.tls.certificate, false);
  if (checked.ok()) checked = CheckFile(config, "tls.ca", config.tls.ca, false);
  if (checked.ok()) checked = CheckFile(config, "tls.key", config.tls.key, true);
  if (!checked.ok()) return checked;
  struct stat status {};
  if (config.hub && (::stat(config.hub->store.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))) {
    return config.Complaint(
        "hub.store", config.hub->store + " is not there; allowed: a directory (is it mounted?)");
  }
  if (config.node && ::stat(config.node->mount.c_str(), &status) != 0 && errno == ENOENT) {
    return config.Complaint("node.mount",
                            config.node->mount + " is not there; run: mkdir " + config.node->mount);
  }
  return {};
}

std::string WriteConfig(const Config& config) {
  const Config defaults;
  std::ostringstream out;
  out << "# What this machine is. All keys: quadfs.toml(5).\n"
      << "cluster = " << Quoted(config.cluster) << "\ncampus = " << Quoted(config.campus) << "\n";
  if (config.state_dir != defaults.state_dir)
    out << "state_dir = " << Quoted(config.state_dir) << "\n";
  if (config.run_dir != defaults.run_dir) out << "run_dir = " << Quoted(config.run_dir) << "\n";
  if (config.log_level != defaults.log_level)
    out << "log_level = " << Quoted(config.log_level) << "\n";
  if (config.hub) {
    const Config::Hub& hub = *config.hub;
    out << "\n[hub]\nlisten = " << Quoted(hub.listen) << "\n";
    if (!hub.advertise.empty()) out << "advertise = " << Quoted(hub.advertise) << "\n";
    out << "store = " << Quoted(hub.store) << "\ncache = " << Quoted(hub.cache)
        << "\ncache_bytes = " << Quoted(ExactBytes(hub.cache_bytes)) << "\n";
    if (!hub.main.empty()) out << "main = " << Quoted(hub.main) << "\n";
  }
  if (config.node) {
    const Config::Node& node = *config.node;
    const Config::Node standard;
    out << "\n[node]\nname = " << Quoted(node.name) << "\nmount = " << Quoted(node.mount)
        << "\ncache = " << Quoted(node.cache)
        << "\ncache_bytes = " << Quoted(ExactBytes(node.cache_bytes))
        << "\nfree_floor_bytes = " << Quoted(ExactBytes(node.free_floor_bytes))
        << "\nhubs = " << Quoted(node.hubs) << "\n";
    if (!node.store_path.empty()) out << "store_path = " << Quoted(node.store_path) << "\n";
    out << "deadline_ms = " << node.deadline_ms.count() << "\nwhen_cut = " << Quoted(node.when_cut)
        << "\n";
    if (node.allow_other != standard.allow_other) out << "allow_other = false\n";
    if (node.passthrough != standard.passthrough) out << "passthrough = false\n";
  }
  out << "\n[writeback]\nlimit_bytes_per_second = "
      << Quoted(ExactBytes(config.writeback.limit_bytes_per_second)) << "\n";
  return out.str();
}

}  // namespace quadfs::daemon
