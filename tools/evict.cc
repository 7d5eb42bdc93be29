#include <cstdio>

#include "fs/daemon/units.h"
#include "tools/answer.h"
#include "tools/path_request.h"

namespace quadfs::tools {

int RunEvict(const Common& common, const PathsOptions& options) {
  const auto answer = AskAboutPaths(common, "evict", options);
  if (!answer.ok()) return Report(common, "evict", answer.error());
  const int status =
      Finish(common, *answer,
             std::to_string(answer->value("evicted_files", uint64_t{0})) + " files, " +
                 daemon::FormatBytes(answer->value("evicted_bytes", uint64_t{0})) + " given back");
  const uint64_t kept = answer->value("kept_files", uint64_t{0});
  if (kept == 0 || status != kDone) return status;
  std::fprintf(stderr, "quadfs evict: %llu files stay: %s\n", static_cast<unsigned long long>(kept),
               answer->value("kept_because", "").c_str());
  return kIncomplete;
}

}  // namespace quadfs::tools
