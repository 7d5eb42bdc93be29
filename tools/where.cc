#include "fs/daemon/units.h"
#include "tools/answer.h"
#include "tools/path_request.h"

namespace quadfs::tools {
namespace {

using Json = nlohmann::json;

void AppendHolders(std::string& text, const char* kind, const Json& holders, uint64_t bytes) {
  if (!holders.is_object()) return;
  for (const auto& [name, held] : holders.items()) {
    const uint64_t here = held.value("bytes", uint64_t{0});
    const bool complete = held.value("complete", here >= bytes);
    text += std::string("\n  ") + kind + " " + name + "  " + daemon::FormatBytes(here);
    text +=
        complete ? "  complete" : "  " + std::to_string(bytes > 0 ? here * 100 / bytes : 0) + " %";
  }
}

std::string Describe(const Json& place) {
  const uint64_t bytes = place.value("bytes", uint64_t{0});
  const std::string type = place.value("type", "");
  std::string text = place.value("path", "") + "  " + type;
  if (type == "directory")
    text += ", " + std::to_string(place.value("files", uint64_t{0})) + " files";
  if (type == "directory" || type == "file") text += ", " + daemon::FormatBytes(bytes);
  if (const std::string state = place.value("state", ""); !state.empty()) text += ", " + state;
  AppendHolders(text, "campus", place.value("campuses", Json::object()), bytes);
  AppendHolders(text, "node", place.value("nodes", Json::object()), bytes);
  if (type == "file" && place.contains("cached_bytes")) {
    text +=
        "\n  this node's cache  " + daemon::FormatBytes(place.value("cached_bytes", uint64_t{0}));
    if (place.value("cached", false)) text += "  complete";
  }
  return text;
}

}  // namespace

int RunWhere(const Common& common, const PathsOptions& options) {
  const auto answer = AskAboutPaths(common, "where", options);
  if (!answer.ok()) return Report(common, "where", answer.error());
  std::string text;
  if (answer->contains("paths")) {
    for (const Json& place : (*answer)["paths"])
      text += (text.empty() ? "" : "\n") + Describe(place);
  } else {
    text = Describe(*answer);
  }
  return Finish(common, *answer, text);
}

}  // namespace quadfs::tools
