#include "transport/connection.h"

#include <sys/socket.h>

#include <charconv>
#include <exception>

#include "transport/sigpipe_guard.h"
#include "transport/x509_identity.h"

namespace quadfs::transport {
namespace {

constexpr size_t kReceiveBytes = size_t{16} << 10;
constexpr std::chrono::milliseconds kLinger{500};
constexpr std::chrono::hours kMaxDeadline{24};

Clock::TimePoint In(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

/// The deadline a request carries, nothing if none. Errors: kInvalidArgument.
Result<std::optional<Clock::TimePoint>> DeadlineOf(const RequestHead& head) {
  const auto found = head.headers.find("quad-deadline-ms");
  if (found == head.headers.end()) return std::optional<Clock::TimePoint>();
  const std::string& text = found->second;
  uint32_t milliseconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), milliseconds);
  if (error != std::errc() || end != text.data() + text.size() ||
      std::chrono::milliseconds(milliseconds) > kMaxDeadline) {
    return Error(ErrorCode::kInvalidArgument, "Quad-Deadline-Ms: milliseconds, at most a day");
  }
  return std::optional(In(std::chrono::milliseconds(milliseconds)));
}

}  // namespace

Connection::Connection(UniqueFd socket, std::string address, const ServerShared& shared)
    : socket_(std::move(socket)),
      address_(std::move(address)),
      shared_(shared),
      stream_(socket_.get(), shared.context.get()) {}

void Connection::StopReading() const { ::shutdown(socket_.get(), SHUT_RD); }
void Connection::Cut() const { ::shutdown(socket_.get(), SHUT_RDWR); }

void Connection::Serve() {
  const SigpipeGuard no_sigpipe;
  auto accepted = stream_.Accept(In(shared_.options.handshake));
  if (accepted.ok()) {
    const X509Ptr certificate = stream_.PeerCertificate();
    auto who = IdentityOf(certificate.get());
    if (who.ok() && who->cluster == shared_.self.cluster) {
      peer_ = std::move(*who);
      for (bool first = true; ServeOne(first); first = false) {
      }
    } else {
      accepted = who.ok() ? Error(ErrorCode::kUnauthenticated,
                                  "certificate of another cluster: " + who->cluster)
                          : std::move(who).error();
    }
  }
  if (!accepted.ok() && !shared_.stopping) shared_.Refused(address_, accepted.error().message());
  stream_.Close(In(shared_.stopping ? std::chrono::milliseconds(0) : kLinger));
  Cut();
}

Result<size_t> Connection::AwaitHead(bool first) {
  Clock::TimePoint by = In(first ? shared_.options.handshake : shared_.options.idle);
  bool begun = first;
  for (;;) {
    if (!received_.empty()) {
      if (!begun) by = In(shared_.options.handshake);  // From its first byte on it must hurry.
      begun = true;
      const auto end = QUADFS_TRY(FindHeadEnd(received_));
      if (end) return *end;
    }
    const size_t before = received_.size();
    received_.resize(before + kReceiveBytes);
    auto got = stream_.Read(
        std::as_writable_bytes(std::span(received_.data() + before, kReceiveBytes)), by);
    received_.resize(before + (got.ok() ? *got : 0));
    if (!got.ok()) return got;
    if (*got == 0) return Error(ErrorCode::kUnavailable, "closed");
  }
}

bool Connection::ServeOne(bool first) {
  auto head_end = AwaitHead(first);
  if (shared_.stopping) return false;
  if (!head_end.ok()) {
    if (head_end.error().code() == ErrorCode::kTooLarge) RefuseHead(431, head_end.error());
    return false;
  }
  auto head = ParseHead(std::string_view(received_).substr(0, *head_end));
  auto by = head.ok() ? DeadlineOf(*head) : Result<std::optional<Clock::TimePoint>>(head.error());
  if (!by.ok()) {
    RefuseHead(by.error().code() == ErrorCode::kNotSupported ? 411 : 400, by.error());
    return false;
  }
  received_.erase(0, *head_end);
  HttpResponse response(stream_, shared_.stopping, head->method == "HEAD", head->keep_alive, *by,
                        shared_.options.stall);
  HttpRequest request(std::move(*head), peer_,
                      Deadline(by->value_or(In(shared_.options.default_deadline))), stream_,
                      std::move(received_), shared_.options.stall);
  try {
    Dispatch(request, response);
  } catch (const std::exception& failure) {
    (void)response.Fail(
        Error(ErrorCode::kUnknown, std::string("internal error: ") + failure.what()));
  } catch (...) {
    (void)response.Fail(Error(ErrorCode::kUnknown, "internal error"));
  }
  if (!response.Finish() || !request.SkipRest()) return false;
  received_ = request.TakeRest();
  return !shared_.stopping;
}

void Connection::Dispatch(HttpRequest& request, HttpResponse& response) const {
  const RouteTable::Found found = shared_.routes.Find(request.method(), request.path(), peer_.role);
  if (found.handler == nullptr) {
    const ErrorCode code =
        found.status == 403 ? ErrorCode::kUnauthenticated : ErrorCode::kNotSupported;
    (void)response.Refuse(found.status, Error(code, found.message));
    return;
  }
  if (request.deadline().Passed()) {
    (void)response.Fail(Error(ErrorCode::kTimedOut, "the deadline passed before the call began"));
    return;
  }
  (*found.handler)(request, response);
}

void Connection::RefuseHead(int status, const Error& error) {
  HttpResponse response(stream_, shared_.stopping, false, false, In(shared_.options.stall),
                        shared_.options.stall);
  (void)response.Refuse(status, error);
}

}  // namespace quadfs::transport
