#include "transport/exchange.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "transport/http_status.h"

namespace quadfs::transport {
namespace {

constexpr uint64_t kMaxSkippedBytes = uint64_t{1} << 20;
// Up to here a copy is cheaper than a TLS record and a system call of its own.
constexpr size_t kJoinedBytes = size_t{64} << 10;
constexpr size_t kMaxErrorBytes = size_t{4} << 10;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

bool IsHeaderText(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
}

}  // namespace

HttpRequest::HttpRequest(RequestHead head, const PeerIdentity& peer, Deadline deadline,
                         TlsStream& stream, std::string early, std::chrono::milliseconds stall)
    : head_(std::move(head)),
      peer_(peer),
      deadline_(deadline),
      stream_(stream),
      early_(std::move(early)),
      left_bytes_(head_.body_bytes),
      owes_continue_(head_.expects_continue),
      stall_(stall) {}

std::string HttpRequest::query(const std::string& name) const {
  const auto found = head_.query.find(name);
  return found != head_.query.end() ? found->second : std::string();
}

std::string HttpRequest::header(const std::string& name) const {
  const auto found = head_.headers.find(name);
  return found != head_.headers.end() ? found->second : std::string();
}

Result<size_t> HttpRequest::ReadBody(std::span<std::byte> buffer) {
  const size_t wanted = static_cast<size_t>(std::min<uint64_t>(buffer.size(), left_bytes_));
  if (wanted == 0) return size_t{0};
  if (!early_.empty()) {
    const size_t count = std::min(wanted, early_.size());
    std::memcpy(buffer.data(), early_.data(), count);
    early_.erase(0, count);
    left_bytes_ -= count;
    return count;
  }
  if (owes_continue_) {
    owes_continue_ = false;
    auto sent = stream_.Write(Bytes("HTTP/1.1 100 Continue\r\n\r\n"), deadline_.at(), stall_);
    if (!sent.ok()) return std::move(sent).error();
  }
  const auto by = std::min(deadline_.at(), std::chrono::steady_clock::now() + stall_);
  const size_t got = QUADFS_TRY(stream_.Read(buffer.subspan(0, wanted), by));
  if (got == 0) {
    return Error(ErrorCode::kUnavailable, "the peer closed " + std::to_string(left_bytes_) +
                                              " bytes before the end of the body");
  }
  left_bytes_ -= got;
  return got;
}

Result<std::string> HttpRequest::ReadAll(size_t limit_bytes) {
  if (left_bytes_ > limit_bytes) {
    return Error(ErrorCode::kTooLarge, "a body of " + std::to_string(left_bytes_) +
                                           " bytes; at most " + std::to_string(limit_bytes));
  }
  std::string body(static_cast<size_t>(left_bytes_), '\0');
  for (size_t filled = 0; filled < body.size();) {
    filled += QUADFS_TRY(
        ReadBody(std::as_writable_bytes(std::span(body.data() + filled, body.size() - filled))));
  }
  return body;
}

bool HttpRequest::SkipRest() {
  if (left_bytes_ == 0) return true;
  if (owes_continue_ || left_bytes_ > kMaxSkippedBytes) return false;
  std::string void_of_bytes(kJoinedBytes, '\0');
  while (left_bytes_ > 0) {
    if (!ReadBody(std::as_writable_bytes(std::span(void_of_bytes))).ok()) return false;
  }
  return true;
}

HttpResponse::HttpResponse(TlsStream& stream, const std::atomic<bool>& stopping, bool head_only,
                           bool keep_alive, std::optional<Clock::TimePoint> by,
                           std::chrono::milliseconds stall)
    : stream_(stream),
      stopping_(stopping),
      head_only_(head_only),
      keep_alive_(keep_alive),
      by_(by.value_or(Clock::TimePoint::max())),
      stall_(stall) {}

Result<std::string> HttpResponse::Head(int status, std::string_view content_type,
                                       std::optional<uint64_t> body_bytes,
                                       const Headers& headers) const {
  std::string head = "HTTP/1.1 " + std::to_string(status) + " ";
  head += ReasonOf(status);
  head += "\r\n";
  const auto add = [&head](std::string_view name, std::string_view value) {
    head += name;
    head += ": ";
    head += value;
    head += "\r\n";
  };
  for (const auto& [name, value] : headers) {
    if (!IsHeaderText(name) || !IsHeaderText(value)) {
      return Error(ErrorCode::kInvalidArgument, "control character in header " + name);
    }
    add(name, value);
  }
  if (!content_type.empty()) add("Content-Type", content_type);
  if (body_bytes) {
    add("Content-Length", std::to_string(*body_bytes));
  } else {
    add("Transfer-Encoding", "chunked");
  }
  if (!keep_alive_) add("Connection", "close");
  head += "\r\n";
  return head;
}

Result<void> HttpResponse::Send(std::string_view first, std::span<const std::byte> then,
                                std::string_view last) {
  Result<void> sent;
  if (then.size() <= kJoinedBytes) {
    scratch_.assign(first);
    scratch_.append(reinterpret_cast<const char*>(then.data()), then.size());
    scratch_.append(last);
    sent = stream_.Write(Bytes(scratch_), by_, stall_);
  } else {
    sent = stream_.Write(Bytes(first), by_, stall_);
    if (sent.ok()) sent = stream_.Write(then, by_, stall_);
    if (sent.ok()) sent = stream_.Write(Bytes(last), by_, stall_);
  }
  if (!sent.ok()) state_ = State::kBroken;
  return sent;
}

Result<void> HttpResponse::Reply(int status, std::string_view content_type, std::string_view body,
                                 const Headers& headers) {
  if (answered()) return Error(ErrorCode::kInvalidArgument, "answered already");
  const std::string head = QUADFS_TRY(Head(status, content_type, body.size(), headers));
  state_ = State::kDone;
  return Send(head, Bytes(head_only_ ? std::string_view() : body), {});
}

Result<void> HttpResponse::Fail(const Error& error) {
  return Refuse(StatusOf(error.code()), error);
}

Result<void> HttpResponse::Refuse(int status, const Error& error) {
  if (state_ == State::kChunked || state_ == State::kSized) {
    state_ = State::kBroken;  // Too late for a status; a cut answer is never taken for a whole one.
    return {};
  }
  const auto number = std::to_string(static_cast<unsigned>(error.code()));
  return Reply(status, "text/plain; charset=utf-8",
               std::string_view(error.message()).substr(0, kMaxErrorBytes),
               {{"Quad-Error", number}});
}

Result<void> HttpResponse::Start(int status, std::string_view content_type,
                                 std::optional<uint64_t> body_bytes, const Headers& headers) {
  if (answered()) return Error(ErrorCode::kInvalidArgument, "answered already");
  const std::string head = QUADFS_TRY(Head(status, content_type, body_bytes, headers));
  left_bytes_ = body_bytes.value_or(0);
  state_ = body_bytes ? State::kSized : State::kChunked;
  return Send(head, {}, {});
}

Result<void> HttpResponse::Write(std::span<const std::byte> data) {
  if (state_ == State::kBroken) return Error(ErrorCode::kUnavailable, "the connection is closed");
  if (state_ != State::kChunked && state_ != State::kSized) {
    return Error(ErrorCode::kInvalidArgument, "Write without Start");
  }
  if (data.empty() || head_only_) return {};
  if (state_ == State::kSized) {
    if (data.size() > left_bytes_) {
      state_ = State::kBroken;
      return Error(ErrorCode::kInvalidArgument, "more bytes than were announced");
    }
    left_bytes_ -= data.size();
    return Send({}, data, {});
  }
  char size[18];
  char* const end = std::to_chars(size, size + 16, data.size(), 16).ptr;
  std::memcpy(end, "\r\n", 2);
  return Send(std::string_view(size, static_cast<size_t>(end + 2 - size)), data, "\r\n");
}

bool HttpResponse::Ended() const {
  return stopping_.load(std::memory_order_relaxed) || state_ == State::kBroken ||
         stream_.PeerClosed();
}

bool HttpResponse::Finish() {
  if (state_ == State::kNone) {
    (void)Fail(Error(ErrorCode::kUnknown, "the handler gave no answer"));
  } else if (state_ == State::kChunked && !head_only_ && !stopping_.load()) {
    // While the server stops, handlers break off: their answers must look cut, not whole.
    if (Send("0\r\n\r\n", {}, {}).ok()) state_ = State::kDone;
  } else if (state_ == State::kSized && (left_bytes_ == 0 || head_only_)) {
    state_ = State::kDone;
  }
  return (state_ == State::kDone || head_only_) && state_ != State::kBroken && keep_alive_;
}

}  // namespace quadfs::transport
