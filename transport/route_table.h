#pragma once

#include <string>
#include <vector>

#include "transport/server.h"

namespace quadfs::transport {

/// Which handler serves a request, and who may call it. Threads: Find may run concurrently once all
/// routes are added.
class RouteTable {
 public:
  void Add(std::string method, std::string path, std::vector<Role> roles, Server::Handler handler);

  /// A handler, or the status and error to answer with: 404, 405, 403.
  struct Found {
    const Server::Handler* handler = nullptr;
    int status = 200;
    std::string message;
  };
  Found Find(const std::string& method, const std::string& path, Role role) const;

 private:
  struct Entry {
    std::string method, path;
    std::vector<Role> roles;
    Server::Handler handler;
  };
  std::vector<Entry> entries_;
};

}  // namespace quadfs::transport
