#include "fs/daemon/units.h"
#include "tools/answer.h"
#include "tools/path_request.h"

namespace quadfs::tools {

int RunSync(const Common& common, const PathsOptions& options) {
  const auto answer = AskAboutPaths(common, "sync", options, {{"until", options.until}});
  if (!answer.ok()) return Report(common, "sync", answer.error());
  return Finish(common, *answer,
                std::to_string(answer->value("total_files", uint64_t{0})) + " files, " +
                    daemon::FormatBytes(answer->value("total_bytes", uint64_t{0})) + ": " +
                    options.until);
}

}  // namespace quadfs::tools
