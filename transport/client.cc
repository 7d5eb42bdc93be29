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

class CurlClient final : public Client {
 public:
  CurlClient(Options options, TlsFiles tls)
      : options_(std::move(options)), tls_(std::move(tls)), addresses_(options_.addresses) {}

  Result<Answer> Call(const std::string& method, const std::string& target, std::string_view body,
                      Deadline deadline, const Headers& headers) override {
    return Perform({.method = method,
                    .target = target,
                    .body = body,
                    .deadline = deadline,
                    .headers = &headers});
  }

  Result<Answer> Download(const std::string& method, const std::string& target,
                          std::string_view body, Deadline deadline, const Sink& sink,
                          const Headers& headers) override {
    return Perform({.method = method,
                    .target = target,
                    .body = body,
                    .deadline = deadline,
                    .headers = &headers,
                    .sink = &sink,
                    .stall = kStall});
  }

  Result<Answer> Upload(const std::string& target, uint64_t body_bytes, const Source& source,
                        Deadline deadline, const Headers& headers) override {
    return Perform({.method = "PUT",
                    .target = target,
                    .body = {},
                    .deadline = deadline,
                    .headers = &headers,
                    .source = &source,
                    .upload_bytes = body_bytes,
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
    const CURLcode code = transfer.Run({});
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
  const TransferRequest request{.method = "GET",
                                .target = target,
                                .body = {},
                                .deadline = {},
                                .headers = &headers,
                                .sink = &sink,
                                .stall = silence};
  const auto handle = QUADFS_TRY(CurlHandle::Make(tls_, options_.connect));
  const SigpipeGuard no_sigpipe;
  for (const size_t index :
       addresses_.Order(AddressBook::kNone, std::chrono::steady_clock::now())) {
    HttpTransfer transfer(*handle, request, options_.server_name);
    if (auto prepared = transfer.Prepare(addresses_.address(index)); !prepared.ok()) {
      return prepared;
    }
    const CURLcode code = transfer.Run(stop);
    if (stop.stop_requested()) return {};
    if (const auto why = transfer.NotReached(code)) {
      addresses_.Failed(index, *why, std::chrono::steady_clock::now());
      continue;
    }
    addresses_.Worked(index);
    auto ended = transfer.Finish(code);
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
