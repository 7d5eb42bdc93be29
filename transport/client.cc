#include "transport/client.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "transport/address_book.h"
#include "transport/base/mutex.h"
#include "transport/http_transfer.h"
#include "transport/listen_socket.h"
#include "transport/sigpipe_guard.h"
#include "transport/tls_context.h"

namespace quadfs::transport {
namespace {

constexpr size_t kMaxMessageBytes = size_t{16} << 20;
constexpr std::chrono::milliseconds kStall{5000};

/// curl's multi interface for one transfer that another thread may stop.
class StoppableRun {
 public:
  StoppableRun() : multi_(curl_multi_init()) {}

  /// Nothing if `stop` ended it, or `silence` did (`timed_out`).
  std::optional<CURLcode> Run(CURL* easy, const HttpTransfer& transfer,
                              std::chrono::milliseconds silence, const std::stop_token& stop,
                              bool& timed_out) const {
    CURLM* const multi = multi_.get();
    if (multi == nullptr) return CURLE_OUT_OF_MEMORY;
    const std::stop_callback wake(stop, [multi] { curl_multi_wakeup(multi); });
    curl_multi_add_handle(multi, easy);
    std::optional<CURLcode> ended;
    while (!ended && !stop.stop_requested()) {
      int running = 0;
      curl_multi_perform(multi, &running);
      int queued = 0;
      while (const CURLMsg* message = curl_multi_info_read(multi, &queued)) {
        if (message->msg == CURLMSG_DONE) ended = message->data.result;
      }
      if (ended) break;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(
          transfer.last_moved() + silence - std::chrono::steady_clock::now());
      timed_out = left.count() <= 0;
      if (timed_out) break;
      curl_multi_poll(multi, nullptr, 0, static_cast<int>(std::min<int64_t>(left.count(), 1000)),
                      nullptr);
    }
    curl_multi_remove_handle(multi, easy);
    return ended;
  }

 private:
  struct Free {
    void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
  };
  std::unique_ptr<CURLM, Free> multi_;
};

class CurlClient final : public Client {
 public:
  CurlClient(Options options, TlsFiles tls)
      : options_(std::move(options)), tls_(std::move(tls)), addresses_(options_.addresses) {}

  Result<Answer> Call(const std::string& method, const std::string& target, std::string_view body,
                      Deadline deadline, const Headers& headers) override {
    return Perform({.method = method, .target = target, .body = body, .deadline = deadline,
                    .headers = &headers});
  }

  Result<Answer> Download(const std::string& method, const std::string& target,
                          std::string_view body, Deadline deadline, const Sink& sink,
                          const Headers& headers) override {
    return Perform({.method = method, .target = target, .body = body, .deadline = deadline,
                    .headers = &headers, .sink = &sink, .stall = kStall});
  }

  Result<Answer> Upload(const std::string& target, uint64_t body_bytes, const Source& source,
                        Deadline deadline, const Headers& headers) override {
    return Perform({.method = "PUT", .target = target, .body = {}, .deadline = deadline,
                    .headers = &headers, .source = &source, .upload_bytes = body_bytes,
                    .stall = kStall});
  }

  Result<void> Follow(const std::string& target, std::chrono::milliseconds silence,
                      std::stop_token stop, const Sink& sink, const Headers& headers) override;

  void Reset() override {
    addresses_.Reset();
    std::vector<std::unique_ptr<CurlHandle>> closed;
    MutexLock lock(mutex_);
    ++age_;
    closed.swap(idle_);
  }

 private:
  Result<Answer> Perform(const TransferRequest& request);
  Result<std::unique_ptr<CurlHandle>> TakeHandle();
  void GiveBack(std::unique_ptr<CurlHandle> handle);
  Error Unreachable() const {
    return {ErrorCode::kUnavailable,
            options_.server_name + " cannot be reached: " + addresses_.Failures()};
  }

  const Options options_;
  const TlsFiles tls_;
  AddressBook addresses_;
  Mutex mutex_;
  std::vector<std::unique_ptr<CurlHandle>> idle_ QUADFS_GUARDED_BY(mutex_);  ///< Latest last.
  uint64_t age_ QUADFS_GUARDED_BY(mutex_) = 0;
};

Result<std::unique_ptr<CurlHandle>> CurlClient::TakeHandle() {
  uint64_t age = 0;
  {
    MutexLock lock(mutex_);
    if (!idle_.empty()) {
      auto handle = std::move(idle_.back());
      idle_.pop_back();
      return handle;
    }
    age = age_;
  }
  auto handle = QUADFS_TRY(CurlHandle::Make(tls_, options_.connect));
  handle->age = age;
  return handle;
}

void CurlClient::GiveBack(std::unique_ptr<CurlHandle> handle) {
  MutexLock lock(mutex_);  // A handle that is not kept closes behind it: `handle` outlives `lock`.
  if (handle->age == age_ && idle_.size() < options_.max_idle_connections) {
    idle_.push_back(std::move(handle));
  }
}

Result<Answer> CurlClient::Perform(const TransferRequest& request) {
  if (request.body.size() > kMaxMessageBytes) {
    return Error(ErrorCode::kTooLarge, "a message above 16 MiB to " + request.target);
  }
  auto handle = QUADFS_TRY(TakeHandle());
  const SigpipeGuard no_sigpipe;
  std::optional<Result<Answer>> outcome;
  for (const size_t index :
       addresses_.Order(handle->connected_to, std::chrono::steady_clock::now())) {
    if (request.deadline->Passed()) {
      outcome = Error(ErrorCode::kTimedOut, request.target + ": the deadline has passed");
      break;
    }
    HttpTransfer transfer(*handle, request, options_.server_name);
    if (auto prepared = transfer.Prepare(addresses_.address(index)); !prepared.ok()) {
      outcome = std::move(prepared).error();
      break;
    }
    const CURLcode code = curl_easy_perform(handle->easy());
    if (const auto why = transfer.NotReached(code)) {
      handle->connected_to = AddressBook::kNone;
      addresses_.Failed(index, *why, std::chrono::steady_clock::now());
      continue;
    }
    outcome = transfer.Finish(code);
    handle->connected_to = code == CURLE_OK ? index : AddressBook::kNone;
    if (code == CURLE_OK) addresses_.Worked(index);
    break;
  }
  GiveBack(std::move(handle));
  if (!outcome) return Unreachable();
  return *std::move(outcome);
}

Result<void> CurlClient::Follow(const std::string& target, std::chrono::milliseconds silence,
                                std::stop_token stop, const Sink& sink, const Headers& headers) {
  const TransferRequest request{.method = "GET", .target = target, .body = {}, .deadline = {},
                                .headers = &headers, .sink = &sink};
  const auto handle = QUADFS_TRY(CurlHandle::Make(tls_, options_.connect));
  const SigpipeGuard no_sigpipe;
  const StoppableRun run;
  for (const size_t index :
       addresses_.Order(AddressBook::kNone, std::chrono::steady_clock::now())) {
    HttpTransfer transfer(*handle, request, options_.server_name);
    if (auto prepared = transfer.Prepare(addresses_.address(index)); !prepared.ok()) {
      return prepared;
    }
    bool silent = false;
    const auto code = run.Run(handle->easy(), transfer, silence, stop, silent);
    if (stop.stop_requested()) return {};
    if (silent) {
      return Error(ErrorCode::kTimedOut, "GET " + target + ": silent for " +
                                             std::to_string(silence.count()) + " ms");
    }
    if (const auto why = transfer.NotReached(*code)) {
      addresses_.Failed(index, *why, std::chrono::steady_clock::now());
      continue;
    }
    addresses_.Worked(index);
    auto ended = transfer.Finish(*code);
    if (!ended.ok()) return std::move(ended).error();
    return Error(ErrorCode::kUnavailable, "GET " + target + ": the hub ended the stream");
  }
  return Unreachable();
}

}  // namespace

Result<std::unique_ptr<Client>> Client::Create(Options options, const TlsFiles& tls) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  if (options.addresses.empty() || options.server_name.empty()) {
    return Error(ErrorCode::kInvalidArgument, "no address, or no name, of the hub to call");
  }
  for (const std::string& address : options.addresses) {
    if (auto parsed = ParseHostPort(address); !parsed.ok()) return std::move(parsed).error();
  }
  if (auto checked = CheckTlsFiles(tls); !checked.ok()) return std::move(checked).error();
  return std::unique_ptr<Client>(new CurlClient(std::move(options), tls));
}

}  // namespace quadfs::transport
