#include "fs/daemon/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <set>

#include "fs/daemon/toml_table.h"
#include "fs/daemon/units.h"

namespace quadfs::daemon {
namespace {

constexpr const char* kAddressAllowed = "host:port, such as \"hub-a:7440\" or \"10.1.2.3:7440\"";

bool IsName(std::string_view text, std::string_view punctuation) {
  return !text.empty() && text.size() <= 63 &&
         std::all_of(text.begin(), text.end(), [punctuation](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  punctuation.find(c) != std::string_view::npos;
         });
}

TomlTable::Check Name(std::string_view punctuation) {
  return {[punctuation](const std::string& text) { return IsName(text, punctuation); },
          "1 to 63 letters, digits and " + std::string(punctuation)};
}
TomlTable::Check Path() {
  return {[](const std::string& text) {
            return text.starts_with('/') && text.find("/../") == std::string::npos &&
                   text.find('\0') == std::string::npos;
          },
          "an absolute path"};
}
TomlTable::Check Address(bool allow_zero) {
  return {[allow_zero](const std::string& text) { return IsHostPort(text, allow_zero); },
          kAddressAllowed};
}
TomlTable::Check OneOf(std::set<std::string> words) {
  std::string allowed;
  for (const std::string& word : words) allowed += (allowed.empty() ? "\"" : ", \"") + word + "\"";
  return {[words](const std::string& text) { return words.count(text) > 0; }, allowed};
}

void ReadHub(TomlTable table, Config::Hub& hub) {
  table.String("listen", hub.listen, Address(true));
  table.Strings("advertise", hub.advertise, Address(false));
  table.String("store", hub.store, Path());
  table.String("cache", hub.cache, Path());
  table.Bytes("cache_bytes", hub.cache_bytes, uint64_t{1} << 20);
  table.Strings("main", hub.main, Address(false));
  table.Required({"store"});
  table.NothingElse();
}

void ReadNode(TomlTable table, Config::Node& node) {
  table.String("name", node.name, Name("-_."));
  table.String("mount", node.mount, Path());
  table.String("cache", node.cache, Path());
  table.Bytes("cache_bytes", node.cache_bytes, uint64_t{8} << 20);
  table.Bytes("free_floor_bytes", node.free_floor_bytes, 0);
  table.Strings("hubs", node.hubs, Address(false));
  table.String("store_path", node.store_path, Path());
  table.Milliseconds("deadline_ms", node.deadline_ms, 100, 3'600'000);
  table.String("when_cut", node.when_cut, OneOf({"fail", "wait"}));
  table.Bool("allow_other", node.allow_other);
  table.Bool("passthrough", node.passthrough);
  table.Required({"name", "hubs"});
  table.NothingElse();
}

void ReadTop(TomlTable& table, Config& config) {
  table.String("cluster", config.cluster, Name("-"));
  table.String("campus", config.campus, Name("-_"));
  table.String("state_dir", config.state_dir, Path());
  table.String("run_dir", config.run_dir, Path());
  table.String("log_level", config.log_level, OneOf({"trace", "debug", "info", "warn", "error"}));
  const std::string tls = config.state_dir + "/tls";
  config.tls = {tls + "/this.crt", tls + "/this.key", tls + "/ca.crt"};
  if (auto files = table.Table("tls")) {
    files->String("certificate", config.tls.certificate, Path());
    files->String("key", config.tls.key, Path());
    files->String("ca", config.tls.ca, Path());
    files->NothingElse();
  }
  if (auto hub = table.Table("hub")) ReadHub(*hub, config.hub.emplace());
  if (auto node = table.Table("node")) ReadNode(*node, config.node.emplace());
  if (auto writeback = table.Table("writeback")) {
    writeback->Bytes("limit_bytes_per_second", config.writeback.limit_bytes_per_second, 0);
    writeback->NothingElse();
  }
  table.Required({"cluster", "campus"});
  table.NothingElse();
}

Result<void> CheckTogether(const Config& config) {
  if (!config.hub && !config.node) {
    return Error(ErrorCode::kInvalidArgument,
                 config.path +
                     ": neither [hub] nor [node]: this machine would do nothing; "
                     "allowed: one of them or both");
  }
  // The socket's address has 108 bytes.
  if (config.socket_path().size() > 100) {
    return config.Complaint("run_dir", "too long for a socket; allowed: up to 86 bytes");
  }
  if (config.hub && config.node && config.hub->cache == config.node->cache) {
    return config.Complaint("node.cache", "is hub.cache too; allowed: a directory of its own");
  }
  return {};
}

}  // namespace

Error Config::Complaint(const std::string& key, const std::string& message) const {
  const auto line = line_of.find(key);
  const std::string where =
      line == line_of.end() ? path : path + ":" + std::to_string(line->second);
  return {ErrorCode::kInvalidArgument, where + ": " + key + ": " + message};
}

transport::TlsFiles Config::node_tls() const {
  if (!hub) return tls;
  const std::string folder = tls.certificate.substr(0, tls.certificate.rfind('/'));
  return {folder + "/node.crt", folder + "/node.key", tls.ca};
}

bool IsHostPort(std::string_view text, bool allow_zero) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != port.npos)
    return false;
  const int number = std::stoi(std::string(port));
  if (number > 65535 || (number == 0 && !allow_zero)) return false;
  if (host.starts_with('[')) {
    return host.ends_with(']') &&
           host.find_first_not_of("0123456789abcdefABCDEF:.[]%") == host.npos;
  }
  return host.find_first_of(":/@ []") == std::string_view::npos;
}

Result<Config> ParseConfig(std::string_view text, const std::string& path) {
  Config config;
  config.path = path;
  try {
    const toml::table parsed = toml::parse(text);
    std::optional<Error> first;
    TomlTable top(parsed, "", path, config.line_of, first);
    ReadTop(top, config);
    if (first) return *first;
  } catch (const toml::parse_error& error) {
    return Error(ErrorCode::kInvalidArgument,
                 path + ":" + std::to_string(error.source().begin.line) +
                     ": not TOML: " + std::string(error.description()));
  }
  if (auto checked = CheckTogether(config); !checked.ok()) return std::move(checked).error();
  return config;
}

std::map<std::string, std::string> FlattenConfig(const Config& config) {
  const auto joined = [](const std::vector<std::string>& list) {
    std::string text;
    for (const std::string& item : list) text += (text.empty() ? "" : ",") + item;
    return text;
  };
  const auto flag = [](bool value) { return std::string(value ? "true" : "false"); };
  std::map<std::string, std::string> flat{
      {"cluster", config.cluster},
      {"campus", config.campus},
      {"state_dir", config.state_dir},
      {"run_dir", config.run_dir},
      {"log_level", config.log_level},
      {"tls.certificate", config.tls.certificate},
      {"tls.key", config.tls.key},
      {"tls.ca", config.tls.ca},
      {"writeback.limit_bytes_per_second", ExactBytes(config.writeback.limit_bytes_per_second)}};
  if (config.hub) {
    flat.insert({{"hub.listen", config.hub->listen},
                 {"hub.advertise", joined(config.hub->advertise)},
                 {"hub.store", config.hub->store},
                 {"hub.cache", config.hub->cache},
                 {"hub.cache_bytes", ExactBytes(config.hub->cache_bytes)},
                 {"hub.main", joined(config.hub->main)}});
  }
  if (config.node) {
    flat.insert({{"node.name", config.node->name},
                 {"node.mount", config.node->mount},
                 {"node.cache", config.node->cache},
                 {"node.cache_bytes", ExactBytes(config.node->cache_bytes)},
                 {"node.free_floor_bytes", ExactBytes(config.node->free_floor_bytes)},
                 {"node.hubs", joined(config.node->hubs)},
                 {"node.store_path", config.node->store_path},
                 {"node.deadline_ms", std::to_string(config.node->deadline_ms.count())},
                 {"node.when_cut", config.node->when_cut},
                 {"node.allow_other", flag(config.node->allow_other)},
                 {"node.passthrough", flag(config.node->passthrough)}});
  }
  return flat;
}

}  // namespace quadfs::daemon
