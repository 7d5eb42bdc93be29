#pragma once

#include <curl/curl.h>

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "transport/client.h"
#include "transport/curl_handle.h"

namespace quadfs::transport {

/// One request. Pointers outlive the transfer.
struct TransferRequest {
  std::string method, target;
  std::string_view body;
  std::optional<Deadline> deadline;  ///< None: a followed stream.
  const Client::Headers* headers = nullptr;
  const Client::Sink* sink = nullptr;      ///< None: the body goes into Answer::body.
  const Client::Source* source = nullptr;  ///< For an upload of `upload_bytes`.
  uint64_t upload_bytes = 0;
  std::chrono::milliseconds stall = kNever;  ///< Nothing moves for so long: kTimedOut.

  static constexpr std::chrono::milliseconds kNever = std::chrono::hours(1000);
};

/// Runs a TransferRequest on a CurlHandle against one address: Prepare, Run, then NotReached or
/// Finish tell how it went.
class HttpTransfer {
 public:
  HttpTransfer(CurlHandle& handle, const TransferRequest& request, const std::string& server_name);
  ~HttpTransfer();
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;

  /// Errors: kInvalidArgument.
  Result<void> Prepare(const std::string& address);

  /// Until the answer is there, it failed, or `stop`.
  CURLcode Run(const std::stop_token& stop);

  /// Why nothing can have reached the hub's handlers, so that another address may be tried; nothing
  /// if the hub was reached.
  std::optional<std::string> NotReached(CURLcode code) const;
  /// The answer, or what went wrong after the hub was reached.
  Result<Answer> Finish(CURLcode code);

 private:
  static size_t OnHeader(char* text, size_t size, size_t count, void* self);
  static size_t OnBody(char* bytes, size_t size, size_t count, void* self);
  static size_t OnSource(char* buffer, size_t size, size_t count, void* self);

  Result<void> PrepareHeaders();
  size_t TakeBody(std::span<const std::byte> bytes);
  /// When the peer has been silent for too long, if nothing moves until then.
  Clock::TimePoint StalledAt();
  bool reached() const;
  std::string WhyNoConnection(CURLcode code) const;
  std::string WhyRefusedIdentity(CURLcode code) const;
  Error LostAnswer(std::string why) const;
  Error ErrorOfAnswer() const;

  CurlHandle& handle_;
  const TransferRequest& request_;
  const std::string& server_name_;
  std::string url_;
  curl_slist* connect_to_ = nullptr;
  curl_slist* header_list_ = nullptr;
  Answer answer_;
  std::string error_body_;
  std::optional<Error> failure_;  ///< From sink or source, or a limit of ours.
  uint64_t sent_bytes_ = 0;
  Clock::TimePoint last_moved_;
};

}  // namespace quadfs::transport
