#include "fs/daemon/control_call.h"

#include <algorithm>

#include "fs/daemon/control_paths.h"

namespace quadfs::daemon {
namespace {

constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 7);

}  // namespace

std::string ControlCall::Word(const char* key) const {
  const auto found = request.find(key);
  return found != request.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool ControlCall::Flag(const char* key) const {
  const auto found = request.find(key);
  return found != request.end() && found->is_boolean() && found->get<bool>();
}

std::vector<std::string> ControlCall::Paths() const {
  std::vector<std::string> paths;
  const auto found = request.find("paths");
  if (found == request.end() || !found->is_array()) return paths;
  for (const nlohmann::json& item : *found) {
    if (!item.is_string()) continue;
    if (auto path = DecodePath(item.get<std::string>()); path.ok()) paths.push_back(*path);
  }
  return paths;
}

Deadline ControlCall::DeadlineOr(std::chrono::milliseconds standard) const {
  const auto found = request.find("timeout_ms");
  auto wait = standard;
  if (found != request.end() && found->is_number_unsigned()) {
    wait = std::chrono::milliseconds(
        std::min<uint64_t>(found->get<uint64_t>(), static_cast<uint64_t>(kLongest.count())));
  }
  return Deadline::After(std::min(wait, kLongest));
}

const std::vector<ControlVerb>& ControlVerbs() {
  static const std::vector<ControlVerb> verbs{
      {"status", false, RunStatus}, {"where", false, RunWhere},    {"prefetch", false, RunPrefetch},
      {"sync", false, RunSync},     {"evict", false, RunEvict},    {"pin", false, RunPin},
      {"unpin", false, RunUnpin},   {"token", true, RunToken},     {"mount", true, RunMount},
      {"umount", true, RunUmount},  {"version", false, RunVersion}};
  return verbs;
}

}  // namespace quadfs::daemon
