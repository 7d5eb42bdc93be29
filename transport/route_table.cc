#include "transport/route_table.h"

#include <algorithm>
#include <utility>

namespace quadfs::transport {

void RouteTable::Add(std::string method, std::string path, std::vector<Role> roles,
                     Server::Handler handler) {
  entries_.push_back({std::move(method), std::move(path), std::move(roles), std::move(handler)});
  // Longest path first, so that the first match is the longest.
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.path.size() > b.path.size(); });
}

RouteTable::Found RouteTable::Find(const std::string& method, const std::string& path,
                                   Role role) const {
  bool path_known = false;
  for (const Entry& entry : entries_) {
    const bool matches =
        entry.path.ends_with('/') ? path.starts_with(entry.path) : path == entry.path;
    if (!matches) continue;
    path_known = true;
    if (entry.method != method) continue;
    if (std::find(entry.roles.begin(), entry.roles.end(), role) != entry.roles.end()) {
      return {&entry.handler, 200, {}};
    }
    return {nullptr, 403, "this certificate may not call " + method + " " + entry.path};
  }
  if (path_known) return {nullptr, 405, method + " is not served on " + path};
  return {nullptr, 404, "nothing is served on " + path};
}

}  // namespace quadfs::transport
