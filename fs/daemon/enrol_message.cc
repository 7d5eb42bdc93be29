#include "fs/daemon/enrol_message.h"

#include <nlohmann/json.hpp>

namespace quadfs::daemon {
namespace {

using Json = nlohmann::json;

Result<Json> ParseObject(std::string_view body) {
  Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return Error(ErrorCode::kInvalidArgument, "enrolment: the message is not a JSON object");
  }
  return json;
}
std::string Word(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}
uint64_t Number(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}
std::vector<std::string> Words(const Json& json, const char* key) {
  std::vector<std::string> words;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return words;
  for (const Json& item : *found) {
    if (item.is_string() && words.size() < 16) words.push_back(item.get<std::string>());
  }
  return words;
}

}  // namespace

std::string Encode(const EnrolRequest& request) {
  Json json{{"csr", request.csr_pem}, {"name", request.name}, {"addresses", request.addresses}};
  if (!request.via_serial.empty()) json["via_serial"] = request.via_serial;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<EnrolRequest> DecodeEnrolRequest(std::string_view body) {
  const Json json = QUADFS_TRY(ParseObject(body));
  EnrolRequest request{Word(json, "csr"), Word(json, "name"), Words(json, "addresses"),
                       Word(json, "via_serial")};
  if (request.csr_pem.empty()) {
    return Error(ErrorCode::kInvalidArgument, "enrolment: no certificate request in the message");
  }
  return request;
}

std::string Encode(const EnrolAnswer& answer) {
  const transport::PeerIdentity& who = answer.identity;
  return Json{{"certificate", answer.certificate_pem},
              {"ca", answer.ca_pem},
              {"cluster", who.cluster},
              {"cluster_name", answer.cluster_name},
              {"role", who.role == transport::Role::kHub ? "hub" : "node"},
              {"campus_id", who.campus.value},
              {"campus", who.campus_name},
              {"node_id", who.node.value},
              {"name", who.name},
              {"main", answer.main_campus},
              {"hub_addresses", answer.hub_addresses}}
      .dump();
}

Result<EnrolAnswer> DecodeEnrolAnswer(std::string_view body) {
  const Json json = QUADFS_TRY(ParseObject(body));
  EnrolAnswer answer;
  answer.certificate_pem = Word(json, "certificate");
  answer.ca_pem = Word(json, "ca");
  answer.cluster_name = Word(json, "cluster_name");
  answer.main_campus = Word(json, "main");
  answer.hub_addresses = Words(json, "hub_addresses");
  answer.identity.cluster = Word(json, "cluster");
  answer.identity.role =
      Word(json, "role") == "hub" ? transport::Role::kHub : transport::Role::kNode;
  answer.identity.campus = CampusId(Number(json, "campus_id"));
  answer.identity.campus_name = Word(json, "campus");
  answer.identity.node = NodeId(Number(json, "node_id"));
  answer.identity.name = Word(json, "name");
  if (answer.certificate_pem.empty() || answer.ca_pem.empty() || !answer.identity.campus ||
      answer.main_campus.empty()) {
    return Error(ErrorCode::kInvalidArgument, "enrolment: the hub's answer is not complete");
  }
  return answer;
}

std::string JoinLine(const std::string& hub_campus, const std::string& token) {
  return hub_campus + "@" + token;
}

Result<JoinLineParts> SplitJoinLine(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = line.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) {
    return Error(ErrorCode::kInvalidArgument,
                 "no token: paste the line that quadfs token printed at main");
  }
  line = line.substr(begin, line.find_last_not_of(kSpace) - begin + 1);
  const size_t at = line.find('@');
  if (at == std::string_view::npos || at == 0 || line.find_first_of(kSpace) != line.npos) {
    return Error(
        ErrorCode::kInvalidArgument,
        "not a join token: it is one line, such as main@quadfs1:…, printed by quadfs token");
  }
  return JoinLineParts{std::string(line.substr(0, at)), std::string(line.substr(at + 1))};
}

}  // namespace quadfs::daemon
