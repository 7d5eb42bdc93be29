#include "fs/daemon/campus_file.h"

#include <nlohmann/json.hpp>

#include "transport/private_file.h"

namespace quadfs::daemon {

Result<CampusFile> ReadCampusFile(const std::string& path) {
  const std::string text = QUADFS_TRY(transport::ReadSmallFile(path, size_t{64} << 10));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Error damaged(ErrorCode::kInvalidArgument,
                      path + ": damaged; write it again with quadfs join and a new token");
  if (!json.is_object() || json.value("format", 0) != 1) return damaged;
  const auto word = [&json](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  CampusFile content{word("cluster_name"), word("main")};
  if (content.main_campus.empty()) return damaged;
  return content;
}

Result<void> WriteCampusFile(const std::string& path, const CampusFile& content) {
  const nlohmann::json json{
      {"format", 1}, {"cluster_name", content.cluster_name}, {"main", content.main_campus}};
  return transport::ReplaceFile(path, json.dump(2) + "\n", 0644);
}

}  // namespace quadfs::daemon
