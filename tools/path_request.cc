#include "tools/path_request.h"

#include <cstdlib>
#include <filesystem>

#include "fs/daemon/control_paths.h"
#include "fs/daemon/units.h"
#include "tools/answer.h"
#include "tools/control_client.h"
#include "tools/progress_bar.h"

namespace quadfs::tools {
namespace {

using Json = nlohmann::json;

/// The directory is resolved, the last name is taken as it is: a symlink is asked about itself.
std::string Absolute(const std::string& path) {
  std::error_code error;
  auto whole = std::filesystem::absolute(path, error).lexically_normal();
  if (!whole.has_filename() && whole.has_relative_path()) whole = whole.parent_path();  // "x/"
  if (!whole.has_relative_path()) return whole.string();
  const auto folder = std::filesystem::canonical(whole.parent_path(), error);
  return error ? whole.string() : (folder / whole.filename()).string();
}

}  // namespace

Result<Json> AskAboutPaths(const Common& common, const char* verb, const PathsOptions& options,
                           Json extra) {
  Json request = extra.is_object() ? std::move(extra) : Json::object();
  request["verb"] = verb;
  request["paths"] = Json::array();
  for (const std::string& path : options.paths) {
    request["paths"].push_back(daemon::EncodePath(Absolute(path)));
  }
  if (!options.timeout.empty()) {
    const auto timeout = QUADFS_TRY(daemon::ParseDuration(options.timeout));
    request["timeout_ms"] = static_cast<uint64_t>(timeout.count());
  }
  const std::string socket = QUADFS_TRY(SocketPath(common));
  ProgressBar bar(verb);
  return AskDaemon(socket, request, [&bar](const Json& progress) {
    bar.Update(
        progress.value("done_bytes", uint64_t{0}), progress.value("total_bytes", uint64_t{0}),
        progress.value("done_files", uint64_t{0}), progress.value("total_files", uint64_t{0}));
  });
}

}  // namespace quadfs::tools
