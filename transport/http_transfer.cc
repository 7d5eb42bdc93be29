#include "transport/http_transfer.h"

#include <openssl/x509_vfy.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "transport/http_status.h"

namespace quadfs::transport {
namespace {

constexpr size_t kMaxMessageBytes = size_t{16} << 20;
constexpr size_t kMaxErrorBytes = size_t{4} << 10;
constexpr size_t kMaxHeaderCount = 64;

bool IsPrintable(std::string_view text, char lowest) {
  return std::all_of(text.begin(), text.end(), [lowest](char c) {
    return static_cast<unsigned char>(c) >= static_cast<unsigned char>(lowest) && c != 0x7F;
  });
}

long TimingOf(CURL* easy, CURLINFO info) {
  curl_off_t microseconds = 0;
  curl_easy_getinfo(easy, info, &microseconds);
  return static_cast<long>(microseconds / 1000);
}

bool HasPassed(CURL* easy, CURLINFO info) {
  curl_off_t microseconds = 0;
  return curl_easy_getinfo(easy, info, &microseconds) == CURLE_OK && microseconds > 0;
}

}  // namespace

HttpTransfer::HttpTransfer(CurlHandle& handle, const TransferRequest& request,
                           const std::string& server_name)
    : handle_(handle),
      request_(request),
      server_name_(server_name),
      last_moved_(std::chrono::steady_clock::now()) {}

HttpTransfer::~HttpTransfer() {
  // The handle outlives this transfer: leave it nothing that points here.
  curl_easy_setopt(handle_.easy(), CURLOPT_CONNECT_TO, nullptr);
  curl_easy_setopt(handle_.easy(), CURLOPT_HTTPHEADER, nullptr);
  curl_easy_setopt(handle_.easy(), CURLOPT_POSTFIELDS, nullptr);
  curl_slist_free_all(connect_to_);
  curl_slist_free_all(header_list_);
}

Result<void> HttpTransfer::PrepareHeaders() {
  const auto add = [this](const std::string& line) {
    curl_slist* const longer = curl_slist_append(header_list_, line.c_str());
    if (longer != nullptr) header_list_ = longer;
    return longer != nullptr;
  };
  bool added = add("Expect:") && add("Accept:");
  bool typed = false;
  if (request_.deadline) {
    added = added && add("Quad-Deadline-Ms: " + std::to_string(request_.deadline->Left().count()));
  }
  for (const auto& [name, value] : *request_.headers) {
    if (!IsPrintable(name, '!') || !IsPrintable(value, ' ')) {
      return Error(ErrorCode::kInvalidArgument, "control character in header " + name);
    }
    typed = typed || strcasecmp(name.c_str(), "content-type") == 0;
    // curl drops "Name:" and sends "Name;" as a header without value.
    added = added && add(value.empty() ? name + ";" : name + ": " + value);
  }
  if (!typed) added = added && add("Content-Type: application/octet-stream");
  if (!added) return Error(ErrorCode::kUnavailable, "no memory for a request");
  return {};
}

Result<void> HttpTransfer::Prepare(const std::string& address) {
  if (!request_.target.starts_with('/') || !IsPrintable(request_.target, '!')) {
    return Error(ErrorCode::kInvalidArgument, "request target '" + request_.target + "'");
  }
  if (auto prepared = PrepareHeaders(); !prepared.ok()) return prepared;
  CURL* easy = handle_.easy();
  url_ = "https://" + server_name_ + request_.target;
  connect_to_ = curl_slist_append(nullptr, ("::" + address).c_str());
  curl_easy_setopt(easy, CURLOPT_URL, url_.c_str());
  curl_easy_setopt(easy, CURLOPT_CONNECT_TO, connect_to_);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, header_list_);
  curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);  // Also takes back POST and UPLOAD.
  if (request_.source != nullptr) {
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE,
                     static_cast<curl_off_t>(request_.upload_bytes));
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, &HttpTransfer::OnSource);
    curl_easy_setopt(easy, CURLOPT_READDATA, this);
  } else if (request_.method != "GET") {
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request_.body.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request_.body.empty() ? "" : request_.body.data());
  }
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST,
                   request_.method == "GET" ? nullptr : request_.method.c_str());
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &HttpTransfer::OnHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &HttpTransfer::OnBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
  // 0 would mean "no limit" to curl.
  const int64_t left =
      request_.deadline ? std::max<int64_t>(request_.deadline->Left().count(), 1) : 0;
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(left));
  return {};
}

size_t HttpTransfer::OnHeader(char* text, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  const size_t bytes = size * count;
  std::string_view line(text, bytes);
  transfer.last_moved_ = std::chrono::steady_clock::now();
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (line.starts_with("HTTP/1.1 ")) {  // A new head: what an interim answer said is over.
    transfer.answer_ = {};
    const std::string_view status = line.substr(9, 3);
    std::from_chars(status.data(), status.data() + status.size(), transfer.answer_.status);
    return bytes;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return bytes;
  if (transfer.answer_.headers.size() >= kMaxHeaderCount) return 0;
  std::string name(line.substr(0, colon));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  line.remove_prefix(colon + 1);
  while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  transfer.answer_.headers[std::move(name)] = std::string(line);
  return bytes;
}

size_t HttpTransfer::OnBody(char* bytes, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  transfer.last_moved_ = std::chrono::steady_clock::now();
  const size_t taken = transfer.TakeBody(std::as_bytes(std::span(bytes, size * count)));
  // A slow sink is no silence of the peer.
  transfer.last_moved_ = std::chrono::steady_clock::now();
  return taken;
}

size_t HttpTransfer::TakeBody(std::span<const std::byte> bytes) {
  const auto* const text = reinterpret_cast<const char*>(bytes.data());
  if (answer_.status / 100 != 2) {
    error_body_.append(text, std::min(bytes.size(), kMaxErrorBytes - error_body_.size()));
    return bytes.size();
  }
  if (request_.sink != nullptr) {
    auto taken = (*request_.sink)(bytes);
    if (taken.ok()) return bytes.size();
    failure_ = std::move(taken).error();
    return 0;
  }
  if (answer_.body.size() + bytes.size() > kMaxMessageBytes) {
    failure_ = Error(ErrorCode::kTooLarge, "an answer above 16 MiB to " + request_.target);
    return 0;
  }
  answer_.body.append(text, bytes.size());
  return bytes.size();
}

size_t HttpTransfer::OnSource(char* buffer, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  const uint64_t left = transfer.request_.upload_bytes - transfer.sent_bytes_;
  const size_t wanted = static_cast<size_t>(std::min<uint64_t>(size * count, left));
  if (wanted == 0) return 0;
  auto got = (*transfer.request_.source)(std::as_writable_bytes(std::span(buffer, wanted)));
  transfer.last_moved_ = std::chrono::steady_clock::now();
  if (got.ok() && *got > 0 && *got <= wanted) {
    transfer.sent_bytes_ += *got;
    return *got;
  }
  transfer.failure_ =
      got.ok() ? Error(ErrorCode::kInvalidArgument,
                       "the source of an upload ended " + std::to_string(left) + " bytes early")
               : std::move(got).error();
  return CURL_READFUNC_ABORT;
}

Clock::TimePoint HttpTransfer::StalledAt() {
  // Curl's own limit watches over connecting. Once an upload is sent, the hub may need long to
  // store it: then only the deadline counts.
  const bool stores = request_.source != nullptr && sent_bytes_ == request_.upload_bytes;
  if (stores || !reached()) last_moved_ = std::chrono::steady_clock::now();
  return last_moved_ + request_.stall;
}

CURLcode HttpTransfer::Run(const std::stop_token& stop) {
  CURLM* const multi = handle_.multi();
  CURL* const easy = handle_.easy();
  const std::stop_callback wake(stop, [multi] { curl_multi_wakeup(multi); });
  if (curl_multi_add_handle(multi, easy) != CURLM_OK) return CURLE_FAILED_INIT;
  std::optional<CURLcode> ended;
  while (!ended && !stop.stop_requested()) {
    const Clock::TimePoint moved = last_moved_;
    int running = 0;
    curl_multi_perform(multi, &running);
    int queued = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &queued)) {
      if (message->msg == CURLMSG_DONE) ended = message->data.result;
    }
    // Curl returns after each TLS record: while they come, look for the next one without poll(2).
    if (ended || last_moved_ != moved) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        StalledAt() - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      failure_ = Error(ErrorCode::kTimedOut, request_.method + " " + request_.target +
                                                 ": nothing moved for " +
                                                 std::to_string(request_.stall.count()) + " ms");
      break;
    }
    curl_multi_poll(multi, nullptr, 0, static_cast<int>(std::min<int64_t>(left.count(), 1000)),
                    nullptr);
  }
  curl_multi_remove_handle(multi, easy);  // Ends what still runs.
  return ended.value_or(CURLE_ABORTED_BY_CALLBACK);
}

bool HttpTransfer::reached() const {
  long request_bytes = 0;
  curl_easy_getinfo(handle_.easy(), CURLINFO_REQUEST_SIZE, &request_bytes);
  return request_bytes > 0;
}

std::optional<std::string> HttpTransfer::NotReached(CURLcode code) const {
  if (code == CURLE_OK || reached() || failure_) return std::nullopt;
  return WhyNoConnection(code);
}

std::string HttpTransfer::WhyNoConnection(CURLcode code) const {
  CURL* easy = handle_.easy();
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST: return "could not resolve the name";
    case CURLE_COULDNT_CONNECT: {
      long number = 0;
      curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
      if (number == ECONNREFUSED) return "connection refused (nothing listens there)";
      return number != 0 ? strerrordesc_np(static_cast<int>(number)) : handle_.Complaint(code);
    }
    case CURLE_OPERATION_TIMEDOUT: {
      const std::string after =
          " after " + std::to_string(TimingOf(easy, CURLINFO_TOTAL_TIME_T)) + " ms";
      if (HasPassed(easy, CURLINFO_CONNECT_TIME_T)) return "TLS handshake timed out" + after;
      if (HasPassed(easy, CURLINFO_NAMELOOKUP_TIME_T)) {
        return "timed out" + after + " (maybe a closed firewall port, or the machine is down)";
      }
      return "name lookup timed out" + after;
    }
    case CURLE_PEER_FAILED_VERIFICATION: return WhyRefusedIdentity(code);
    default: return handle_.Complaint(code);
  }
}

std::string HttpTransfer::WhyRefusedIdentity(CURLcode code) const {
  long verified = 0;
  curl_easy_getinfo(handle_.easy(), CURLINFO_SSL_VERIFYRESULT, &verified);
  // Where the chain is good and only the name is wrong, curl says "unspecified".
  if (verified == X509_V_OK || verified == X509_V_ERR_UNSPECIFIED) {
    return "answers but is not " + server_name_ + ": wrong address or DNS?";
  }
  return "answers but its certificate is refused: " + handle_.Complaint(code);
}

Error HttpTransfer::LostAnswer(std::string why) const {
  const std::string message = request_.method + " " + request_.target + ": " + std::move(why);
  // Nothing is lost but time if a read is repeated; of a change nobody knows whether it happened.
  return {request_.method == "GET" ? ErrorCode::kUnavailable : ErrorCode::kTimedOut, message};
}

Error HttpTransfer::ErrorOfAnswer() const {
  uint32_t number = 0;
  ErrorCode code = CodeOfStatus(answer_.status);
  if (const auto named = answer_.headers.find("quad-error"); named != answer_.headers.end()) {
    const std::string& text = named->second;
    std::from_chars(text.data(), text.data() + text.size(), number);
    code = ErrorCodeFromNumber(number);
  }
  if (error_body_.empty()) {
    return {code, request_.target + ": HTTP status " + std::to_string(answer_.status)};
  }
  return {code, error_body_};
}

Result<Answer> HttpTransfer::Finish(CURLcode code) {
  if (failure_) return *failure_;
  if (code == CURLE_OK && answer_.status / 100 == 2) return std::move(answer_);
  if (code == CURLE_OK) return ErrorOfAnswer();
  if (code == CURLE_OPERATION_TIMEDOUT) {
    return Error(ErrorCode::kTimedOut,
                 request_.method + " " + request_.target + ": no answer within the deadline");
  }
  const std::string complaint = handle_.Complaint(code);
  if (answer_.status == 0 && complaint.find(" alert ") != std::string::npos) {
    return Error(ErrorCode::kUnauthenticated,
                 server_name_ + " refuses this machine's certificate: " + complaint);
  }
  return LostAnswer("connection lost: " + complaint);
}

}  // namespace quadfs::transport
