#include "metadata/journal.h"

#include "metadata/codec.h"
#include "metadata/row_bytes.h"

namespace quadfs::metadata {
namespace {

// Numbers are reserved ahead, so that one is never used twice even if its row was erased.
constexpr uint64_t kReserve = 65536;
constexpr char kNextKey[] = "next";

std::string KeyOf(uint64_t number) {
  RowEncoder key;
  key.Byte('o');
  key.Big64(number);
  return key.Take();
}

}  // namespace

Result<void> Journal::Open() {
  MutexLock lock(mutex_);
  const auto next = local_.Get(kFamily, kNextKey);
  if (next.ok()) {
    RowDecoder row(*next);
    next_ = reserved_ = row.Little<uint64_t>();
  } else if (next.error().code() != ErrorCode::kNotFound) {
    return next.error();
  }
  // Of what an earlier run left, nobody knows here what became: all of it is repeated.
  return local_.Scan(kFamily, "o", {},
                     [&](std::string_view key, std::string_view) QUADFS_NO_THREAD_SAFETY_ANALYSIS {
                       RowDecoder row(key.substr(1));
                       open_.insert(row.Big64());
                       return true;
                     });
}

Result<Journal::Ticket> Journal::Add(const Operation& operation) {
  Ticket ticket;
  {
    MutexLock lock(mutex_);
    if (next_ >= reserved_) {
      RowEncoder row;
      row.Little(next_ + kReserve);
      if (auto put = local_.Put(kFamily, kNextKey, row.Take()); !put.ok())
        return std::move(put).error();
      reserved_ = next_ + kReserve;
    }
    ticket.node_op = next_++;
    open_.insert(ticket.node_op);
    ticket.answered_below = *open_.begin();
  }
  if (auto put = local_.Put(kFamily, KeyOf(ticket.node_op), Encode(operation)); !put.ok()) {
    Answered(ticket.node_op, false);
    return std::move(put).error();
  }
  return ticket;
}

void Journal::Answered(uint64_t node_op, bool accepted) {
  MutexLock lock(mutex_);
  open_.erase(node_op);
  if (accepted && early_.erase(node_op) == 0) {
    accepted_.insert(node_op);
    return;
  }
  (void)local_.Erase(kFamily, KeyOf(node_op));
  changed_.NotifyAll();
}

void Journal::Committed(uint64_t node_op) {
  MutexLock lock(mutex_);
  if (open_.contains(node_op)) {
    early_.insert(node_op);
    return;
  }
  if (accepted_.erase(node_op) > 0) (void)local_.Erase(kFamily, KeyOf(node_op));
  changed_.NotifyAll();
}

Result<std::map<uint64_t, Operation>> Journal::Unanswered() const {
  std::set<uint64_t> open;
  {
    MutexLock lock(mutex_);
    open = open_;
  }
  std::map<uint64_t, Operation> found;
  for (const uint64_t number : open) {
    const auto value = local_.Get(kFamily, KeyOf(number));
    if (!value.ok()) continue;
    found.emplace(number, QUADFS_TRY(DecodeOperation(*value)));
  }
  return found;
}

std::set<uint64_t> Journal::Reopen() {
  MutexLock lock(mutex_);
  const std::set<uint64_t> reopened = accepted_;
  open_.insert(accepted_.begin(), accepted_.end());
  accepted_.clear();
  early_.clear();
  return reopened;
}

uint64_t Journal::size() const {
  MutexLock lock(mutex_);
  return open_.size() + accepted_.size();
}

Result<void> Journal::WaitEmpty(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!open_.empty() || !accepted_.empty()) {
    if (!changed_.WaitUntil(mutex_, deadline.at())) {
      return Error(ErrorCode::kTimedOut, std::to_string(open_.size() + accepted_.size()) +
                                             " operations are not confirmed by main yet");
    }
  }
  return {};
}

}  // namespace quadfs::metadata
