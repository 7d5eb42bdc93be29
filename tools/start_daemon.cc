#include "tools/start_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "fs/daemon/folders.h"
#include "tools/control_client.h"
#include "transport/base/clock.h"
#include "transport/base/unique_fd.h"

namespace quadfs::tools {
namespace {

constexpr std::chrono::milliseconds kLookAgain{100};

Result<std::string> FindDaemon() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::string> folders;
  if (!error) folders.push_back(self.parent_path().string());
  folders.insert(folders.end(), {"/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"});
  for (const std::string& folder : folders) {
    const std::string path = folder + "/quadfsd";
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return Error(ErrorCode::kNotFound,
               "no quadfsd beside this program or in /usr/sbin; install it there");
}

std::string LogPath(const daemon::Config& config) {
  const daemon::Config usual;
  return (config.state_dir == usual.state_dir ? "/var/log/quadfs" : config.state_dir) +
         "/quadfsd.log";
}

/// An abstract datagram socket: nothing to clean up.
class ReadySocket {
 public:
  static Result<ReadySocket> Make() {
    ReadySocket ready;
    ready.name_ = "quadfs-mount-" + std::to_string(::getpid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ready.name_.copy(address.sun_path + 1, sizeof(address.sun_path) - 2);
    const auto size =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + ready.name_.size());
    ready.fd_.Reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!ready.fd_ ||
        ::bind(ready.fd_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
      return ErrorFromErrno(errno, "notification socket");
    }
    return ready;
  }
  std::string variable() const { return "@" + name_; }
  int fd() const { return fd_.get(); }
  /// Takes one message; true if it says READY=1.
  bool TakeReady() const {
    std::array<char, 4096> text{};
    const ssize_t count = ::recv(fd_.get(), text.data(), text.size(), MSG_DONTWAIT);
    return count > 0 && ("\n" + std::string(text.data(), static_cast<size_t>(count)) + "\n")
                                .find("\nREADY=1\n") != std::string::npos;
  }

 private:
  std::string name_;
  UniqueFd fd_;
};

std::string LastLine(const std::string& path, std::streamoff from) {
  std::ifstream file(path);
  file.seekg(from);
  std::string line, last, complaint;
  while (std::getline(file, line)) {
    if (!line.empty()) last = line;
    if (line.find(" error ") != std::string::npos) complaint = line;
  }
  return complaint.empty() ? last : complaint;
}

/// Runs quadfsd in a session of its own. Returns its pid.
Result<pid_t> Launch(const std::string& program, const daemon::Config& config,
                     const std::string& mount_options, int log, const std::string& notify) {
  std::vector<std::string> words{program, "--config", config.path};
  if (!mount_options.empty()) words.insert(words.end(), {"--mount-options", mount_options});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const pid_t pid = ::fork();
  if (pid < 0) return ErrorFromErrno(errno, "fork");
  if (pid == 0) {
    ::setsid();
    ::setenv("NOTIFY_SOCKET", notify.c_str(), 1);
    if (::chdir("/") != 0 || ::dup2(null.get(), 0) < 0 || ::dup2(log, 1) < 0 || ::dup2(log, 2) < 0)
      ::_exit(127);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  return pid;
}

}  // namespace

Result<void> StartDaemon(const daemon::Config& config, const std::string& mount_options,
                         std::chrono::milliseconds timeout) {
  const Deadline deadline = Deadline::After(timeout);
  const std::string program = QUADFS_TRY(FindDaemon());
  const std::string log_path = LogPath(config);
  QUADFS_TRY(daemon::MakeFolder(std::filesystem::path(log_path).parent_path().string()));
  const UniqueFd log(::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  if (!log) return ErrorFromErrno(errno, log_path);
  const std::streamoff log_start = ::lseek(log.get(), 0, SEEK_END);
  const ReadySocket ready = QUADFS_TRY(ReadySocket::Make());
  const pid_t pid = QUADFS_TRY(Launch(program, config, mount_options, log.get(), ready.variable()));
  const UniqueFd ended(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  while (!deadline.Passed()) {
    std::array<pollfd, 2> wait{{{ready.fd(), POLLIN, 0}, {ended.get(), POLLIN, 0}}};
    ::poll(wait.data(), wait.size(),
           static_cast<int>(std::min<int64_t>(deadline.Left().count(), 1000)));
    if ((wait[0].revents & POLLIN) != 0 && ready.TakeReady()) return {};
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) {
      return Error(ErrorCode::kUnknown, "quadfsd ended at once: " + LastLine(log_path, log_start));
    }
  }
  return Error(ErrorCode::kTimedOut, "quadfsd still starts: " + LastLine(log_path, log_start) +
                                         "; it goes on trying, its log is " + log_path);
}

Result<void> MountTree(const daemon::Config& config, const std::string& mount_options,
                       std::chrono::milliseconds timeout) {
  if (!config.node) {
    return config.Complaint("node", "is missing: this machine has no mount; run quadfs join");
  }
  const Deadline deadline = Deadline::After(timeout);
  for (;;) {
    const auto status = AskDaemon(config.socket_path(), {{"verb", "status"}});
    if (!status.ok()) {
      if (status.error().code() != ErrorCode::kUnavailable) return status.error();
      return StartDaemon(config, mount_options, deadline.Left());
    }
    if (status->contains("mount") && (*status)["mount"].value("mounted", false)) {
      return Error(ErrorCode::kExists, config.node->mount + " is mounted already");
    }
    const auto mounted =
        AskDaemon(config.socket_path(), {{"verb", "mount"}, {"options", mount_options}});
    if (mounted.ok()) return {};
    if (mounted.error().code() != ErrorCode::kUnavailable) return mounted.error();
    // It still starts, or is about to end: look again.
    if (deadline.Passed()) return Error(ErrorCode::kTimedOut, mounted.error().message());
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace quadfs::tools
