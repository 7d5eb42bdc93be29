#include "fs/daemon/control_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <list>
#include <thread>

#include "fs/daemon/control_call.h"
#include "fs/daemon/log.h"
#include "transport/base/mutex.h"
#include "transport/base/unique_fd.h"

namespace quadfs::daemon {
namespace {

using Json = nlohmann::json;
constexpr int kRequestTimeoutMs = 10'000;
constexpr int kWriteTimeoutMs = 10'000;

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// One connection: who is at the other end, lines in and out.
class Session {
 public:
  explicit Session(UniqueFd fd) : fd_(std::move(fd)) {}

  Result<metadata::Credentials> Peer() const {
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
      return ErrorFromErrno(errno, "SO_PEERCRED");
    }
    metadata::Credentials credentials{peer.uid, peer.gid, {}};
    std::vector<gid_t> groups(1024);
    size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) == 0) {
      groups.resize(size / sizeof(gid_t));
      credentials.groups.assign(groups.begin(), groups.end());
    }
    return credentials;
  }

  Result<std::string> ReadLine(const std::atomic<bool>& stopping) const {
    const Deadline deadline = Deadline::After(std::chrono::milliseconds(kRequestTimeoutMs));
    std::string line;
    std::string chunk(16384, '\0');
    while (!stopping && !deadline.Passed()) {
      pollfd wait{fd_.get(), POLLIN, 0};
      if (::poll(&wait, 1, 200) <= 0) continue;
      const ssize_t count = ::recv(fd_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count <= 0) return Error(ErrorCode::kCancelled, "the asker went away");
      line.append(chunk, 0, static_cast<size_t>(count));
      if (const size_t end = line.find('\n'); end != std::string::npos) return line.substr(0, end);
      if (line.size() > ControlServer::kMaxRequestBytes) {
        return Error(ErrorCode::kTooLarge, "a request above 1 MiB");
      }
    }
    return Error(ErrorCode::kTimedOut, "no request came");
  }

  /// False: the asker does not read or went away.
  bool Write(const std::string& text) {
    size_t done = 0;
    while (!gone_ && done < text.size()) {
      const ssize_t count =
          ::send(fd_.get(), text.data() + done, text.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count > 0) {
        done += static_cast<size_t>(count);
      } else if (count < 0 && errno == EAGAIN) {
        pollfd wait{fd_.get(), POLLOUT, 0};
        gone_ = ::poll(&wait, 1, kWriteTimeoutMs) <= 0;
      } else if (!(count < 0 && errno == EINTR)) {
        gone_ = true;
      }
    }
    return !gone_;
  }

  bool Gone() {
    pollfd wait{fd_.get(), POLLRDHUP, 0};
    if (::poll(&wait, 1, 0) > 0 && (wait.revents & (POLLHUP | POLLERR | POLLRDHUP)) != 0)
      gone_ = true;
    return gone_;
  }

 private:
  UniqueFd fd_;
  std::atomic<bool> gone_{false};
};

class SocketControlServer final : public ControlServer {
 public:
  SocketControlServer(std::string path, UniqueFd listener, Daemon& daemon)
      : path_(std::move(path)), listener_(std::move(listener)), daemon_(daemon) {
    acceptor_ = std::jthread([this] { Accept(); });
  }
  ~SocketControlServer() override { Stop(); }

  void Stop() override {
    if (stopping_.exchange(true)) return;
    if (acceptor_.joinable()) acceptor_.join();
    {
      MutexLock lock(mutex_);
      while (active_ > 0) ended_.Wait(mutex_);
    }
    ::unlink(path_.c_str());
  }

 private:
  void Accept() {
    while (!stopping_) {
      pollfd wait{listener_.get(), POLLIN, 0};
      if (::poll(&wait, 1, 100) <= 0) continue;
      UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd) continue;
      {
        const MutexLock lock(mutex_);
        if (active_ >= kMaxConnections) {
          Session(std::move(fd))
              .Write(R"({"error":"too many requests at once; try again","code":"busy"})"
                     "\n");
          continue;
        }
        ++active_;
      }
      // Counted rather than kept: Stop waits until all have ended.
      std::thread([this, connection = std::make_shared<UniqueFd>(std::move(fd))] {
        Serve(std::move(*connection));
        const MutexLock lock(mutex_);
        --active_;
        ended_.NotifyAll();
      }).detach();
    }
  }

  void Serve(UniqueFd fd) {
    Session session(std::move(fd));
    const auto line = session.ReadLine(stopping_);
    if (!line.ok()) return;
    Result<Json> answer = Error(ErrorCode::kInvalidArgument, "the request is not a JSON object");
    const Json request = Json::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (request.is_object()) {
      try {
        answer = Dispatch(session, request);
      } catch (const Json::exception& error) {
        answer =
            Error(ErrorCode::kInvalidArgument, std::string("malformed request: ") + error.what());
      }
    }
    if (answer.ok()) {
      Json body = std::move(*answer);
      body["ok"] = true;
      session.Write(Dump(body));
    } else {
      session.Write(Dump(Json{{"error", answer.error().message()},
                              {"code", std::string(ErrorCodeName(answer.error().code()))}}));
    }
  }

  Result<Json> Dispatch(Session& session, const Json& request) {
    ControlCall call{request, QUADFS_TRY(session.Peer()),
                     [&session](const Json& progress) {
                       session.Write(Dump(Json{{"progress", progress}}));
                     },
                     [this, &session] { return stopping_ || session.Gone(); }};
    const std::string name = call.Word("verb");
    std::string known;
    for (const ControlVerb& verb : ControlVerbs()) {
      if (name == verb.name) {
        if (verb.admin && !call.admin()) {
          return Error(ErrorCode::kPermission, std::string("quadfs ") + verb.name + " is for root");
        }
        return verb.run(daemon_, call);
      }
      known += (known.empty() ? "" : ", ") + std::string(verb.name);
    }
    return Error(ErrorCode::kInvalidArgument, "unknown verb '" + name + "'; allowed: " + known);
  }

  const std::string path_;
  UniqueFd listener_;
  Daemon& daemon_;
  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  CondVar ended_;
  int active_ QUADFS_GUARDED_BY(mutex_) = 0;
  std::jthread acceptor_;
};

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::Start(const std::string& socket_path,
                                                            Daemon& daemon) {
  const sockaddr_un address = AddressOf(socket_path);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return ErrorFromErrno(errno, "socket");
  if (::connect(fd.get(), generic, sizeof(address)) == 0) {
    return Error(ErrorCode::kBusy,
                 socket_path + ": another quadfsd listens there; give this one its own run_dir");
  }
  ::unlink(socket_path.c_str());
  fd.Reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::bind(fd.get(), generic, sizeof(address)) != 0 ||
      ::chmod(socket_path.c_str(), 0666) != 0 || ::listen(fd.get(), 64) != 0) {
    return ErrorFromErrno(errno, socket_path);
  }
  return std::unique_ptr<ControlServer>(
      std::make_unique<SocketControlServer>(socket_path, std::move(fd), daemon));
}

}  // namespace quadfs::daemon
