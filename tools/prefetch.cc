#include "fs/daemon/units.h"
#include "tools/answer.h"
#include "tools/path_request.h"

namespace quadfs::tools {

int RunPrefetch(const Common& common, const PathsOptions& options) {
  const auto answer =
      AskAboutPaths(common, "prefetch", options, {{"background", options.background}});
  if (!answer.ok()) return Report(common, "prefetch", answer.error());
  const bool queued = options.background;
  const uint64_t files = answer->value(queued ? "queued_files" : "done_files", uint64_t{0});
  const uint64_t bytes = answer->value(queued ? "queued_bytes" : "done_bytes", uint64_t{0});
  return Finish(common, *answer,
                std::to_string(files) + " files, " + daemon::FormatBytes(bytes) +
                    (queued ? " on their way" : " here"));
}

}  // namespace quadfs::tools
