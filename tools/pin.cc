#include <cstdio>

#include "fs/daemon/units.h"
#include "tools/answer.h"
#include "tools/path_request.h"

namespace quadfs::tools {
namespace {

int SetPinned(const Common& common, const PathsOptions& options, const char* verb,
              const char* done) {
  const auto answer = AskAboutPaths(common, verb, options);
  if (!answer.ok()) return Report(common, verb, answer.error());
  const int status =
      Finish(common, *answer,
             std::to_string(answer->value("files", uint64_t{0})) + " files, " +
                 daemon::FormatBytes(answer->value("bytes", uint64_t{0})) + " " + done);
  const uint64_t failed = answer->value("failed_files", uint64_t{0});
  if (failed == 0 || status != kDone) return status;
  std::fprintf(stderr, "quadfs %s: %llu files failed: %s\n", verb,
               static_cast<unsigned long long>(failed), answer->value("problem", "").c_str());
  return kIncomplete;
}

}  // namespace

int RunPin(const Common& common, const PathsOptions& options) {
  return SetPinned(common, options, "pin", "pinned");
}
int RunUnpin(const Common& common, const PathsOptions& options) {
  return SetPinned(common, options, "unpin", "no longer pinned");
}

}  // namespace quadfs::tools
