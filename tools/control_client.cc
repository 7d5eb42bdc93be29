#include "tools/control_client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

#include "transport/base/unique_fd.h"

namespace quadfs::tools {
namespace {

using Json = nlohmann::json;
constexpr size_t kMaxAnswerBytes = size_t{256} << 20;

ErrorCode CodeByName(const std::string& name) {
  for (uint32_t number = 1; number < 256; ++number) {
    const ErrorCode code = ErrorCodeFromNumber(number);
    if (code != ErrorCode::kUnknown && ErrorCodeName(code) == name) return code;
  }
  return ErrorCode::kUnknown;
}

Result<UniqueFd> Connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Error(ErrorCode::kInvalidArgument, path + ": too long for a socket");
  }
  path.copy(address.sun_path, path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == EACCES || errno == EPERM) return ErrorFromErrno(errno, path);
    return Error(ErrorCode::kUnavailable,
                 "quadfsd does not run here (nobody listens on " + path +
                     "); start it with systemctl start quadfsd or quadfs mount");
  }
  return fd;
}

}  // namespace

Result<Json> AskDaemon(const std::string& socket_path, const Json& request,
                       const std::function<void(const Json&)>& on_progress) {
  const UniqueFd fd = QUADFS_TRY(Connect(socket_path));
  const std::string line = request.dump() + "\n";
  for (size_t done = 0; done < line.size();) {
    const ssize_t count = ::send(fd.get(), line.data() + done, line.size() - done, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error(ErrorCode::kUnavailable, "quadfsd went away");
    done += static_cast<size_t>(count);
  }
  std::string buffer;
  std::string chunk(65536, '\0');
  for (;;) {
    for (size_t end = buffer.find('\n'); end != std::string::npos; end = buffer.find('\n')) {
      const Json json =
          Json::parse(buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(end), nullptr, false);
      buffer.erase(0, end + 1);
      if (!json.is_object()) return Error(ErrorCode::kUnknown, "quadfsd answers what is not JSON");
      if (json.contains("progress")) {
        if (on_progress) on_progress(json["progress"]);
        continue;
      }
      if (!json.contains("error")) return json;
      return Error(CodeByName(json.value("code", "")), json.value("error", "unknown"));
    }
    if (buffer.size() > kMaxAnswerBytes)
      return Error(ErrorCode::kTooLarge, "quadfsd's answer is too long");
    const ssize_t count = ::recv(fd.get(), chunk.data(), chunk.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Error(ErrorCode::kUnavailable, "quadfsd ended before it answered");
    buffer.append(chunk, 0, static_cast<size_t>(count));
  }
}

}  // namespace quadfs::tools
