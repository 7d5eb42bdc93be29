#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "tests/support/transport_faults.h"
#include "transport/client.h"
#include "transport/http_head.h"
#include "transport/route_table.h"
#include "transport/server.h"

namespace quadfs::test {

/// A Server without sockets: it keeps the routes that a module registers, for TwinClients to call.
/// Threads and lifetime: as Server's; it outlives its clients.
class TwinServer final : public transport::Server {
 public:
  void Route(std::string method, std::string path, std::vector<transport::Role> roles,
             Handler handler) override {
    routes_.Add(std::move(method), std::move(path), std::move(roles), std::move(handler));
  }
  Result<void> Start() override {
    stopping_ = false;
    return {};
  }
  /// New calls fail with kUnavailable, streams see Ended(). Start makes it serve again.
  void Stop() override { stopping_ = true; }
  uint16_t port() const override { return 0; }
  /// After Stop: returns when no handler runs any more, and forgets the routes; whoever made them
  /// may go, and another may register its own.
  void Retire() {
    for (int running = running_; running != 0; running = running_) running_.wait(running);
    routes_ = transport::RouteTable();
  }

  const transport::RouteTable& routes() const { return routes_; }
  const std::atomic<bool>& stopping() const { return stopping_; }

  /// Counts a handler that runs.
  class Running {
   public:
    explicit Running(TwinServer& server) : server_(server) { ++server_.running_; }
    ~Running() {
      --server_.running_;
      server_.running_.notify_all();
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    TwinServer& server_;
  };

 private:
  transport::RouteTable routes_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> running_{0};
};

/// The request of a TwinClient.
class TwinRequest final : public transport::Request {
 public:
  using Source = transport::Client::Source;

  TwinRequest(transport::RequestHead head, const transport::PeerIdentity& peer, Deadline deadline,
              Source source)
      : head_(std::move(head)),
        peer_(peer),
        deadline_(deadline),
        source_(std::move(source)),
        left_bytes_(head_.body_bytes) {}

  const std::string& method() const override { return head_.method; }
  const std::string& path() const override { return head_.path; }
  std::string query(const std::string& name) const override { return Of(head_.query, name); }
  std::string header(const std::string& name) const override { return Of(head_.headers, name); }
  const transport::PeerIdentity& peer() const override { return peer_; }
  Deadline deadline() const override { return deadline_; }
  uint64_t body_bytes() const override { return head_.body_bytes; }

  Result<size_t> ReadBody(std::span<std::byte> buffer) override {
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(buffer.size(), left_bytes_));
    if (wanted == 0) return size_t{0};
    if (deadline_.Passed()) return Error(ErrorCode::kTimedOut, "peer too slow: reading");
    auto got = source_(buffer.subspan(0, wanted));
    if (!got.ok() || *got == 0 || *got > wanted) {
      source_error_ = got.ok() ? Error(ErrorCode::kInvalidArgument, "the source ended early")
                               : std::move(got).error();
      return Error(ErrorCode::kUnavailable, "the peer closed before the end of the body");
    }
    left_bytes_ -= *got;
    return *got;
  }
  Result<std::string> ReadAll(size_t limit_bytes) override {
    if (left_bytes_ > limit_bytes) return Error(ErrorCode::kTooLarge, "the body is too large");
    std::string body(static_cast<size_t>(left_bytes_), '\0');
    for (size_t filled = 0; filled < body.size();) {
      filled += QUADFS_TRY(
          ReadBody(std::as_writable_bytes(std::span(body.data() + filled, body.size() - filled))));
    }
    return body;
  }

  const std::optional<Error>& source_error() const { return source_error_; }

 private:
  static std::string Of(const std::map<std::string, std::string>& map, const std::string& name) {
    const auto found = map.find(name);
    return found != map.end() ? found->second : std::string();
  }

  const transport::RequestHead head_;
  const transport::PeerIdentity& peer_;
  const Deadline deadline_;
  const Source source_;
  uint64_t left_bytes_;
  std::optional<Error> source_error_;
};

/// The answer to it; a body goes to the caller's sink at once.
class TwinResponse final : public transport::Response {
 public:
  using Sink = transport::Client::Sink;

  TwinResponse(const std::atomic<bool>& server_stopping, std::stop_token stop,
               std::chrono::milliseconds silence, const Sink* sink)
      : server_stopping_(server_stopping), stop_(std::move(stop)), silence_(silence), sink_(sink) {}

  Result<void> Reply(int status, std::string_view content_type, std::string_view body,
                     const Headers& headers = {}) override {
    auto begun = Start(status, content_type, body.size(), headers);
    return begun.ok() ? Write(std::as_bytes(std::span(body.data(), body.size()))) : begun;
  }
  Result<void> Fail(const Error& error) override {
    if (answer_.status != 0) {
      cut_ = true;
    } else {
      error_ = error;
      answer_.status = 500;
    }
    return {};
  }
  Result<void> Start(int status, std::string_view content_type, std::optional<uint64_t> body_bytes,
                     const Headers& headers = {}) override {
    if (answer_.status != 0) return Error(ErrorCode::kInvalidArgument, "answered already");
    answer_.status = status;
    left_bytes_ = body_bytes;
    if (!content_type.empty()) answer_.headers["content-type"] = std::string(content_type);
    if (body_bytes) answer_.headers["content-length"] = std::to_string(*body_bytes);
    for (const auto& [name, value] : headers) {
      std::string lower = name;
      std::transform(lower.begin(), lower.end(), lower.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      answer_.headers[lower] = value;
    }
    last_write_ = std::chrono::steady_clock::now();
    return {};
  }
  Result<void> Write(std::span<const std::byte> data) override {
    if (cut_ || Ended()) return Error(ErrorCode::kUnavailable, "the connection is closed");
    if (answer_.status == 0) return Error(ErrorCode::kInvalidArgument, "Write without Start");
    if (left_bytes_ && data.size() > *left_bytes_) {
      cut_ = true;
      return Error(ErrorCode::kInvalidArgument, "more bytes than were announced");
    }
    if (left_bytes_) *left_bytes_ -= data.size();
    last_write_ = std::chrono::steady_clock::now();
    if (sink_ == nullptr || answer_.status / 100 != 2) {
      answer_.body.append(reinterpret_cast<const char*>(data.data()), data.size());
      return {};
    }
    if (data.empty()) return {};
    if (auto taken = (*sink_)(data); !taken.ok()) {
      sink_error_ = std::move(taken).error();
      return Error(ErrorCode::kUnavailable, "the connection is closed");
    }
    last_write_ = std::chrono::steady_clock::now();
    return {};
  }
  bool Ended() const override {
    return server_stopping_ || stop_.stop_requested() || sink_error_ || silent();
  }

  bool silent() const {
    return silence_.count() > 0 && std::chrono::steady_clock::now() - last_write_ > silence_;
  }
  /// What the client sees once the handler has returned.
  Result<transport::Answer> Outcome(const std::string& method) {
    if (sink_error_) return *sink_error_;
    if (error_) return *error_;
    if (answer_.status == 0) return Error(ErrorCode::kUnknown, "the handler gave no answer");
    if (cut_ || left_bytes_.value_or(0) != 0 || (!left_bytes_ && server_stopping_)) {
      return Error(method == "GET" ? ErrorCode::kUnavailable : ErrorCode::kTimedOut,
                   "connection lost: the answer is cut");
    }
    if (answer_.status / 100 != 2) return Error(ErrorCode::kUnknown, answer_.body);
    return std::move(answer_);
  }

 private:
  const std::atomic<bool>& server_stopping_;
  const std::stop_token stop_;
  const std::chrono::milliseconds silence_;
  const Sink* const sink_;
  transport::Answer answer_;
  std::optional<uint64_t> left_bytes_;
  std::optional<Error> error_, sink_error_;
  bool cut_ = false;
  Clock::TimePoint last_write_ = std::chrono::steady_clock::now();
};

/// A Client that calls a TwinServer's handlers in the caller's own thread, as `peer`. A deadline
/// that passes in a handler yields kTimedOut when the handler returns; `silence` of Follow shows
/// in the handler's Ended().
class TwinClient final : public transport::Client {
 public:
  TwinClient(TwinServer& server, transport::PeerIdentity peer)
      : server_(server), peer_(std::move(peer)) {}

  Result<transport::Answer> Call(const std::string& method, const std::string& target,
                                 std::string_view body, Deadline deadline,
                                 const Headers& headers = {}) override {
    return Perform({method, target, body.size(), deadline, nullptr, {}, {}}, headers,
                   FromText(body));
  }
  Result<transport::Answer> Download(const std::string& method, const std::string& target,
                                     std::string_view body, Deadline deadline, const Sink& sink,
                                     const Headers& headers = {}) override {
    return Perform({method, target, body.size(), deadline, &sink, {}, {}}, headers, FromText(body));
  }
  Result<transport::Answer> Upload(const std::string& target, uint64_t body_bytes,
                                   const Source& source, Deadline deadline,
                                   const Headers& headers = {}) override {
    return Perform({"PUT", target, body_bytes, deadline, nullptr, {}, {}}, headers, source);
  }
  Result<void> Follow(const std::string& target, std::chrono::milliseconds silence,
                      std::stop_token stop, const Sink& sink,
                      const Headers& headers = {}) override {
    const Deadline none(Clock::TimePoint::max());
    auto ended = Perform({"GET", target, 0, none, &sink, stop, silence}, headers, FromText({}));
    if (stop.stop_requested()) return {};
    if (!ended.ok()) return std::move(ended).error();
    return Error(ErrorCode::kUnavailable, "GET " + target + ": the hub ended the stream");
  }
  void Reset() override {}

 private:
  struct Wanted {
    std::string method, target;
    uint64_t body_bytes;
    Deadline deadline;
    const Sink* sink;
    std::stop_token stop;
    std::chrono::milliseconds silence;
  };

  /// `text` outlives the source.
  static Source FromText(std::string_view text) {
    return [text, at = size_t{0}](std::span<std::byte> buffer) mutable -> Result<size_t> {
      const size_t count = std::min(buffer.size(), text.size() - at);
      if (count > 0) std::memcpy(buffer.data(), text.data() + at, count);
      at += count;
      return count;
    };
  }

  Result<transport::Answer> Perform(const Wanted& wanted, const Headers& headers, Source source) {
    const TwinServer::Running running(server_);
    if (server_.stopping()) return Error(ErrorCode::kUnavailable, "twin: connection refused");
    if (wanted.deadline.Passed()) return Error(ErrorCode::kTimedOut, "the deadline has passed");
    transport::RequestHead head;
    head.method = wanted.method;
    head.body_bytes = wanted.body_bytes;
    if (auto parsed = transport::ParseTarget(wanted.target, head); !parsed.ok()) {
      return std::move(parsed).error();
    }
    for (const auto& [name, value] : headers) {
      std::string lower = name;
      for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
      head.headers[lower] = value;
    }
    const auto found = server_.routes().Find(head.method, head.path, peer_.role);
    if (found.handler == nullptr) {
      return Error(found.status == 403 ? ErrorCode::kUnauthenticated : ErrorCode::kNotSupported,
                   found.message);
    }
    TwinRequest request(std::move(head), peer_, wanted.deadline, std::move(source));
    TwinResponse response(server_.stopping(), wanted.stop, wanted.silence, wanted.sink);
    (*found.handler)(request, response);
    if (request.source_error()) return *request.source_error();
    if (response.silent()) return Error(ErrorCode::kTimedOut, wanted.target + ": silent");
    if (wanted.deadline.Passed()) {
      return Error(ErrorCode::kTimedOut, wanted.target + ": no answer within the deadline");
    }
    return response.Outcome(wanted.method);
  }

  TwinServer& server_;
  const transport::PeerIdentity peer_;
};

}  // namespace quadfs::test
