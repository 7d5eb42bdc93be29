#include "metadata/op_shipper.h"

#include <algorithm>

#include "metadata/proto/wire.pb.h"
#include "metadata/wire.h"

namespace quadfs::metadata {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What a program does next usually follows at once, and travels along.
constexpr auto kLinger = milliseconds(4);
constexpr auto kKeepAlive = milliseconds(1000);
constexpr auto kCallLimit = seconds(10);
constexpr auto kFirstRetry = milliseconds(20);
constexpr auto kLastRetry = milliseconds(1000);
constexpr size_t kMaxOperations = 512;
constexpr uint32_t kFailuresToGiveUp = 2;  ///< Of batches in a row; who waits is told then.

}  // namespace

void OpShipper::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

void OpShipper::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
    answered_changed_.NotifyAll();
  }
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void OpShipper::Add(uint64_t node_op, std::string operation) {
  MutexLock lock(mutex_);
  queue_.push_back({node_op, std::move(operation)});
  ++added_;
  if (queue_.size() == 1) wake_.NotifyOne();
}

void OpShipper::Clear() {
  MutexLock lock(mutex_);
  queue_.clear();
  answered_ = added_;
  ++cleared_;
  answered_changed_.NotifyAll();
}

void OpShipper::AddTail(Tail tail) {
  MutexLock lock(mutex_);
  tail.after = added_;
  tails_.push_back(std::move(tail));
  wake_.NotifyOne();
}

void OpShipper::Return(std::vector<Delegation> delegations) {
  if (!delegations.empty()) AddTail({0, std::move(delegations), false, 0});
}

void OpShipper::ReturnAll() { AddTail({0, {}, true, 0}); }

void OpShipper::Answer(uint64_t flush_demand) { AddTail({0, {}, false, flush_demand}); }

Result<void> OpShipper::Flush(Deadline deadline, bool patient) {
  MutexLock lock(mutex_);
  const uint64_t through = added_;
  if (answered_ >= through) return {};
  if (!patient) {
    ++waiters_;
    wake_.NotifyOne();
  }
  const uint64_t failures = failures_;
  Result<void> done;
  while (answered_ < through && done.ok()) {
    if (stopping_) {
      done = Error(ErrorCode::kCancelled, "the node is stopping");
    } else if (failures_ > failures && in_a_row_ >= kFailuresToGiveUp) {
      done = Error(ErrorCode::kUnavailable, problem_);
    } else if (!answered_changed_.WaitUntil(mutex_, deadline.at())) {
      done = Error(ErrorCode::kUnavailable, "the hub has not taken what was done here before");
    }
  }
  if (!patient) --waiters_;
  return done;
}

size_t OpShipper::size() const {
  MutexLock lock(mutex_);
  return queue_.size();
}

void OpShipper::Run(std::stop_token stop) {
  auto retry = kFirstRetry;
  auto next_ping = std::chrono::steady_clock::now();
  while (!stop.stop_requested()) {
    wire::OpBatch batch;
    uint64_t cleared = 0;
    size_t tails = 0;
    {
      MutexLock lock(mutex_);
      const auto waiting = std::chrono::steady_clock::now() + kKeepAlive;
      while (queue_.empty() && tails_.empty() && !stopping_) {
        if (!wake_.WaitUntil(mutex_, waiting)) break;
      }
      if (stopping_) return;
      if (queue_.empty() && tails_.empty()) {
        if (std::chrono::steady_clock::now() < next_ping) continue;
        mutex_.unlock();
        const bool ping = hooks_.keep_alive();
        mutex_.lock();
        if (!ping) continue;
      }
      if (!Urgent() && !queue_.empty() && queue_.size() < kMaxOperations) {
        const auto until = std::chrono::steady_clock::now() + kLinger;
        while (!Urgent() && !stopping_ && wake_.WaitUntil(mutex_, until)) {
        }
        if (stopping_) return;
      }
      cleared = cleared_;
      size_t bytes = 0;
      for (const Item& item : queue_) {
        if (static_cast<size_t>(batch.operations_size()) == kMaxOperations) break;
        bytes += item.operation.size();
        if (bytes > kMaxBatchBytes && batch.operations_size() > 0) break;
        wire::OpRequest& operation = *batch.add_operations();
        operation.set_node_op(item.node_op);
        operation.set_operation(item.operation);
        operation.set_shown(true);
      }
      const uint64_t through = answered_ + static_cast<uint64_t>(batch.operations_size());
      for (const Tail& tail : tails_) {
        if (tail.after > through) break;
        ++tails;
        if (tail.returned_all) batch.set_returned_all(true);
        batch.set_flushed(std::max<uint64_t>(batch.flushed(), tail.flushed));
        for (const Delegation& delegation : tail.returned) {
          wire::Delegation& returned = *batch.add_returned();
          returned.set_directory(delegation.directory.value);
          returned.set_number(delegation.number);
        }
      }
    }
    batch.set_answered_below(hooks_.answered_below());
    const auto sent = std::chrono::steady_clock::now();
    const auto answer =
        CallService<wire::OpBatchAnswer>(hub_, "/v1/batch", batch, Deadline::After(kCallLimit));
    int done = 0;
    if (answer.ok()) {
      next_ping = sent + kKeepAlive;
      hooks_.on_heard(sent);
      done = std::min(answer->outcomes_size(), batch.operations_size());
      for (int i = 0; i < done; ++i) {
        const wire::OpOutcome& said = answer->outcomes(i);
        Outcome outcome;
        outcome.node_op = batch.operations(i).node_op();
        if (said.code() != 0)
          outcome.refused.emplace(ErrorCodeFromNumber(said.code()), said.message());
        outcome.view = said.view();
        outcome.pending = said.pending();
        hooks_.on_outcome(outcome);
      }
      if (done == batch.operations_size() && batch.returned_all()) hooks_.on_returned_all();
    }
    MutexLock lock(mutex_);
    if (cleared == cleared_) {
      queue_.erase(queue_.begin(), queue_.begin() + done);
      answered_ += static_cast<uint64_t>(done);
      answered_changed_.NotifyAll();
    }
    if (answer.ok() && done == batch.operations_size()) {
      tails_.erase(tails_.begin(), tails_.begin() + static_cast<std::ptrdiff_t>(tails));
      retry = kFirstRetry;
      in_a_row_ = 0;
      continue;
    }
    ++failures_;
    ++in_a_row_;
    problem_ = answer.ok() ? "the hub cannot take changes now" : answer.error().message();
    answered_changed_.NotifyAll();
    if (!stopping_) wake_.WaitUntil(mutex_, std::chrono::steady_clock::now() + retry);
    retry = std::min<milliseconds>(retry * 2, kLastRetry);
  }
}

}  // namespace quadfs::metadata
