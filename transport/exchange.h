#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "transport/http_head.h"
#include "transport/server.h"
#include "transport/tls_stream.h"

namespace quadfs::transport {

/// A request whose body comes from a TlsStream; its first bytes may have come with the head.
class HttpRequest final : public Request {
 public:
  /// `early`: what was read behind the head; TakeRest gives back what is not of this request.
  HttpRequest(RequestHead head, const PeerIdentity& peer, Deadline deadline, TlsStream& stream,
              std::string early, std::chrono::milliseconds stall);

  const std::string& method() const override { return head_.method; }
  const std::string& path() const override { return head_.path; }
  std::string query(const std::string& name) const override;
  std::string header(const std::string& name) const override;
  const PeerIdentity& peer() const override { return peer_; }
  Deadline deadline() const override { return deadline_; }
  uint64_t body_bytes() const override { return head_.body_bytes; }
  Result<size_t> ReadBody(std::span<std::byte> buffer) override;
  Result<std::string> ReadAll(size_t limit_bytes) override;

  bool wants_keep_alive() const { return head_.keep_alive; }
  /// Reads what the handler left of the body; false if it is not worth it, or fails.
  bool SkipRest();
  std::string TakeRest() { return std::move(early_); }

 private:
  const RequestHead head_;
  const PeerIdentity& peer_;
  const Deadline deadline_;
  TlsStream& stream_;
  std::string early_;
  uint64_t left_bytes_;
  bool owes_continue_;
  const std::chrono::milliseconds stall_;
};

/// The answer to it.
class HttpResponse final : public Response {
 public:
  /// `by`: when the peer stops waiting, if it said so.
  HttpResponse(TlsStream& stream, const std::atomic<bool>& stopping, bool head_only,
               bool keep_alive, std::optional<Clock::TimePoint> by,
               std::chrono::milliseconds stall);

  Result<void> Reply(int status, std::string_view content_type, std::string_view body,
                     const Headers& headers) override;
  Result<void> Fail(const Error& error) override;
  Result<void> Start(int status, std::string_view content_type, std::optional<uint64_t> body_bytes,
                     const Headers& headers) override;
  Result<void> Write(std::span<const std::byte> data) override;
  bool Ended() const override;

  /// Like Fail, with a status of its own.
  Result<void> Refuse(int status, const Error& error);
  bool answered() const { return state_ != State::kNone; }
  /// The connection must close behind this answer.
  void CloseAfter() { keep_alive_ = false; }
  /// Ends the answer; true if the connection can carry another one.
  bool Finish();

 private:
  enum class State { kNone, kChunked, kSized, kDone, kBroken };

  Result<std::string> Head(int status, std::string_view content_type,
                           std::optional<uint64_t> body_bytes, const Headers& headers) const;
  Result<void> Send(std::string_view first, std::span<const std::byte> then, std::string_view last);

  TlsStream& stream_;
  const std::atomic<bool>& stopping_;
  const bool head_only_;
  bool keep_alive_;
  const Clock::TimePoint by_;
  const std::chrono::milliseconds stall_;
  State state_ = State::kNone;
  uint64_t left_bytes_ = 0;  ///< Of a kSized answer.
  std::string scratch_;
};

}  // namespace quadfs::transport
