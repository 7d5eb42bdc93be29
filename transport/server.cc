#include "transport/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <list>
#include <thread>

#include "transport/base/mutex.h"
#include "transport/connection.h"
#include "transport/listen_socket.h"
#include "transport/tls_context.h"

namespace quadfs::transport {
namespace {

constexpr std::chrono::milliseconds kStopGrace{500};
constexpr int kRetryAcceptMs = 100;

class TlsServer final : public Server {
 public:
  TlsServer(Options options, PeerIdentity self, SslContextPtr context, UniqueFd listener,
            UniqueFd wakeup)
      : listener_(std::move(listener)), wakeup_(std::move(wakeup)), port_(PortOf(listener_.get())) {
    shared_.options = std::move(options);
    shared_.self = std::move(self);
    shared_.context = std::move(context);
  }
  ~TlsServer() override { Stop(); }

  void Route(std::string method, std::string path, std::vector<Role> roles,
             Handler handler) override {
    assert(!acceptor_.joinable() && "Route before Start");
    shared_.routes.Add(std::move(method), std::move(path), std::move(roles), std::move(handler));
  }

  Result<void> Start() override {
    try {
      acceptor_ = std::jthread([this] { AcceptLoop(); });
    } catch (const std::system_error& failure) {
      return Error(ErrorCode::kUnavailable, std::string("start a thread: ") + failure.what());
    }
    return {};
  }

  void Stop() override {
    shared_.stopping = true;
    Wake();
    if (acceptor_.joinable()) acceptor_.join();
    listener_.Reset();
    {
      MutexLock lock(mutex_);
      for (const Served& served : live_) served.connection->StopReading();
      const auto by = std::chrono::steady_clock::now() + kStopGrace;
      while (!live_.empty() && changed_.WaitUntil(mutex_, by)) {
      }
      for (const Served& served : live_) served.connection->Cut();
      while (!live_.empty()) changed_.Wait(mutex_);
    }
    Reap();
  }

  uint16_t port() const override { return port_; }

 private:
  struct Served {
    std::unique_ptr<Connection> connection;
    std::jthread thread;
  };

  void Wake() const {
    const uint64_t one = 1;
    // A full counter means that the wake-up is pending already.
    [[maybe_unused]] const ssize_t written = ::write(wakeup_.get(), &one, sizeof one);
  }

  void AcceptLoop() {
    bool exhausted = false;
    while (!shared_.stopping) {
      std::array<pollfd, 2> waiting{{{wakeup_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}}};
      // Out of descriptors: look at the listener again only after a while, or it would spin.
      ::poll(waiting.data(), exhausted ? 1 : 2, exhausted ? kRetryAcceptMs : -1);
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t drained = ::read(wakeup_.get(), &count, sizeof count);
      Reap();
      exhausted = !shared_.stopping && !AcceptWaiting();
    }
  }

  /// Takes all that wait; false if the process is out of descriptors or memory.
  bool AcceptWaiting() {
    for (;;) {
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      auto* const address = reinterpret_cast<sockaddr*>(&from);
      UniqueFd socket(::accept4(listener_.get(), address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return true;
        shared_.Refused("new connection", ErrorFromErrno(errno, "accept").message());
        return false;
      }
      const int on = 1;
      ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      Serve(std::move(socket), AddressText(address, size));
    }
  }

  void Serve(UniqueFd socket, const std::string& address) {
    bool full = false;
    {
      MutexLock lock(mutex_);
      full = live_.size() >= shared_.options.max_connections;
    }
    if (full) {
      shared_.Refused(
          address, "more than " + std::to_string(shared_.options.max_connections) + " connections");
      return;  // Closes it.
    }
    std::list<Served> one;
    one.emplace_back();
    one.front().connection = std::make_unique<Connection>(std::move(socket), address, shared_);
    MutexLock lock(mutex_);
    live_.splice(live_.end(), one);
    const auto self = std::prev(live_.end());
    try {
      self->thread = std::jthread([this, self] {
        self->connection->Serve();
        MutexLock ended_lock(mutex_);
        ended_.splice(ended_.end(), live_, self);
        changed_.NotifyAll();
        Wake();
      });
    } catch (const std::system_error&) {
      live_.erase(self);  // Closes it; the peer tries again.
    }
  }

  /// Joins the threads that have ended.
  void Reap() {
    std::list<Served> ended;
    {
      MutexLock lock(mutex_);
      ended.swap(ended_);
    }
    // Leaving the scope joins them; they have given up the lock, or are about to.
  }

  ServerShared shared_;
  UniqueFd listener_;
  const UniqueFd wakeup_;
  const uint16_t port_;
  Mutex mutex_;
  CondVar changed_;
  std::list<Served> live_ QUADFS_GUARDED_BY(mutex_);
  std::list<Served> ended_ QUADFS_GUARDED_BY(mutex_);  ///< To be joined.
  std::jthread acceptor_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Create(Options options, const TlsFiles& tls) {
  PeerIdentity self = QUADFS_TRY(CheckTlsFiles(tls));
  if (self.role != Role::kHub) {
    return Error(ErrorCode::kInvalidArgument,
                 tls.certificate + ": only a hub's certificate can serve; this is a node's");
  }
  if (options.max_connections == 0) {
    return Error(ErrorCode::kInvalidArgument, "max_connections: at least 1");
  }
  SslContextPtr context = QUADFS_TRY(MakeServerContext(tls));
  UniqueFd listener = QUADFS_TRY(Listen(options.address));
  UniqueFd wakeup(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wakeup) return ErrorFromErrno(errno, "eventfd");
  return std::unique_ptr<Server>(new TlsServer(std::move(options), std::move(self),
                                               std::move(context), std::move(listener),
                                               std::move(wakeup)));
}

}  // namespace quadfs::transport
