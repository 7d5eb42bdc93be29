#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <string>

#include "transport/base/mutex.h"
#include "transport/client.h"

namespace quadfs::test {

/// A Client that fails on order in front of another one. Orders queue up; each hits the next call
/// whose target begins with its prefix, and is used up by it.
/// Threads: every method may be called concurrently. Lifetime: `inner` outlives it.
class FaultyClient final : public transport::Client {
 public:
  explicit FaultyClient(transport::Client& inner) : inner_(inner) {}

  /// The call never reaches the hub: kUnavailable.
  void DropNext(std::string prefix = "/") { Queue({Kind::kDrop, std::move(prefix)}); }
  /// The hub does it, the answer is lost: kTimedOut.
  void LoseAnswerNext(std::string prefix = "/") { Queue({Kind::kLose, std::move(prefix)}); }
  /// The hub gets it twice; the caller sees the second answer. Follow is not doubled.
  void DuplicateNext(std::string prefix = "/") { Queue({Kind::kDuplicate, std::move(prefix)}); }
  /// A download or followed stream breaks (kUnavailable) once `bytes` have arrived.
  void CutAfter(uint64_t bytes, std::string prefix = "/") {
    Queue({Kind::kCut, std::move(prefix), bytes});
  }
  /// The call waits, before it reaches the hub, until Release(), at most until its deadline.
  void HoldNext(std::string prefix = "/") { Queue({Kind::kHold, std::move(prefix)}); }
  void Release() {
    MutexLock lock(mutex_);
    held_ = 0;
    changed_.NotifyAll();
  }
  /// Waits until a call is held; false if none is within 10 s.
  bool AwaitHeld() {
    MutexLock lock(mutex_);
    const auto by = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (held_ == 0) {
      if (!changed_.WaitUntil(mutex_, by)) return held_ != 0;
    }
    return true;
  }

  /// The line is cut: every call fails with kUnavailable, streams break at their next byte.
  void Cut() { SetCut(true); }
  void Heal() { SetCut(false); }

  /// How many orders have struck (calls refused by Cut count too).
  uint64_t faults_fired() const {
    MutexLock lock(mutex_);
    return faults_fired_;
  }

  Result<transport::Answer> Call(const std::string& method, const std::string& target,
                                 std::string_view body, Deadline deadline,
                                 const Headers& headers = {}) override {
    return Strike(
        target, deadline,
        [&](const Sink*) { return inner_.Call(method, target, body, deadline, headers); }, nullptr);
  }
  Result<transport::Answer> Download(const std::string& method, const std::string& target,
                                     std::string_view body, Deadline deadline, const Sink& sink,
                                     const Headers& headers = {}) override {
    return Strike(
        target, deadline,
        [&](const Sink* to) {
          return inner_.Download(method, target, body, deadline, *to, headers);
        },
        &sink);
  }
  Result<transport::Answer> Upload(const std::string& target, uint64_t body_bytes,
                                   const Source& source, Deadline deadline,
                                   const Headers& headers = {}) override {
    std::string body;  // Kept, so that a duplicate can be sent.
    const bool keep = NextIs(Kind::kDuplicate, target);
    return Strike(
        target, deadline,
        [&](const Sink*) {
          size_t at = 0;
          const bool again = keep && !body.empty();
          const Source from = [&](std::span<std::byte> buffer) -> Result<size_t> {
            if (again) {
              const size_t count = std::min(buffer.size(), body.size() - at);
              std::memcpy(buffer.data(), body.data() + at, count);
              at += count;
              return count;
            }
            auto got = source(buffer);
            if (keep && got.ok()) body.append(reinterpret_cast<const char*>(buffer.data()), *got);
            return got;
          };
          return inner_.Upload(target, body_bytes, from, deadline, headers);
        },
        nullptr);
  }
  Result<void> Follow(const std::string& target, std::chrono::milliseconds silence,
                      std::stop_token stop, const Sink& sink,
                      const Headers& headers = {}) override {
    auto ended = Strike(
        target, Deadline::After(silence),
        [&](const Sink* to) -> Result<transport::Answer> {
          auto followed = inner_.Follow(target, silence, stop, *to, headers);
          if (!followed.ok()) return std::move(followed).error();
          return transport::Answer{};
        },
        &sink);
    if (!ended.ok()) return std::move(ended).error();
    return {};
  }
  void Reset() override { inner_.Reset(); }

 private:
  enum class Kind { kDrop, kLose, kDuplicate, kCut, kHold };
  struct Order {
    Kind kind;
    std::string prefix;
    uint64_t bytes = 0;
  };

  static Error Unreachable() { return {ErrorCode::kUnavailable, "fault: connection refused"}; }

  void Queue(Order order) {
    MutexLock lock(mutex_);
    orders_.push_back(std::move(order));
  }
  void SetCut(bool cut) {
    MutexLock lock(mutex_);
    cut_ = cut;
    changed_.NotifyAll();
  }
  bool NextIs(Kind kind, const std::string& target) const {
    MutexLock lock(mutex_);
    const auto next = std::find_if(orders_.begin(), orders_.end(), [&target](const Order& order) {
      return target.starts_with(order.prefix);
    });
    return next != orders_.end() && next->kind == kind;
  }
  std::optional<Order> TakeOrder(const std::string& target) QUADFS_REQUIRES(mutex_) {
    const auto next = std::find_if(orders_.begin(), orders_.end(), [&target](const Order& order) {
      return target.starts_with(order.prefix);
    });
    if (next == orders_.end()) return std::nullopt;
    Order order = *next;
    orders_.erase(next);
    ++faults_fired_;
    return order;
  }
  /// False if the deadline came before Release.
  bool Hold(Deadline deadline) QUADFS_REQUIRES(mutex_) {
    ++held_;
    changed_.NotifyAll();
    while (held_ > 0 && !cut_) {
      if (!changed_.WaitUntil(mutex_, deadline.at()) && deadline.Passed()) {
        if (held_ > 0) --held_;
        return false;
      }
    }
    return true;
  }

  /// Runs `perform` with what the next matching order says. `sink`: null if the call has none.
  template <typename Perform>
  Result<transport::Answer> Strike(const std::string& target, Deadline deadline,
                                   const Perform& perform, const Sink* sink) {
    std::optional<Order> order;
    {
      MutexLock lock(mutex_);
      order = TakeOrder(target);
      if (order && order->kind == Kind::kHold && !Hold(deadline)) {
        return Error(ErrorCode::kTimedOut, "fault: held until the deadline");
      }
      if (cut_) {
        ++faults_fired_;
        return Unreachable();
      }
    }
    if (order && order->kind == Kind::kDrop) return Unreachable();
    uint64_t arrived = 0;
    const uint64_t limit = order && order->kind == Kind::kCut ? order->bytes : UINT64_MAX;
    const Sink watching = [&](std::span<const std::byte> bytes) -> Result<void> {
      const Error broken(ErrorCode::kUnavailable, "fault: connection lost");
      {
        MutexLock lock(mutex_);
        if (cut_) return broken;
      }
      const size_t passed = static_cast<size_t>(std::min<uint64_t>(bytes.size(), limit - arrived));
      arrived += passed;
      if (passed > 0) {
        if (auto taken = (*sink)(bytes.subspan(0, passed)); !taken.ok()) return taken;
      }
      return passed < bytes.size() || arrived == limit ? Result<void>(broken) : Result<void>();
    };
    const Sink* const to = sink != nullptr ? &watching : nullptr;
    if (order && order->kind == Kind::kDuplicate && sink == nullptr) (void)perform(to);
    auto answer = perform(to);
    if (order && order->kind == Kind::kLose) {
      return Error(ErrorCode::kTimedOut, "fault: the answer was lost");
    }
    MutexLock lock(mutex_);
    if (cut_ && answer.ok()) return Error(ErrorCode::kTimedOut, "fault: cut before the answer");
    return answer;
  }

  transport::Client& inner_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Order> orders_ QUADFS_GUARDED_BY(mutex_);
  uint64_t held_ QUADFS_GUARDED_BY(mutex_) = 0;
  bool cut_ QUADFS_GUARDED_BY(mutex_) = false;
  uint64_t faults_fired_ QUADFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace quadfs::test
