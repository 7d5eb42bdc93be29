#include "metadata/journal.h"

#include "metadata/codec.h"
#include "metadata/row_bytes.h"

namespace quadfs::metadata {
namespace {

// Numbers are reserved ahead, so that one is never used twice even if its row was erased.
constexpr uint64_t kReserve = 65536;
constexpr char kNextKey[] = "next";

// Prefixes of the rows: done by the hub, done by the node itself.
constexpr char kAsked = 'o';
constexpr char kShown = 's';

}  // namespace

std::string Journal::KeyOf(uint64_t node_op) const {
  RowEncoder key;
  key.Byte(static_cast<uint8_t>(shown_.contains(node_op) ? kShown : kAsked));
  key.Big64(node_op);
  return key.Take();
}

void Journal::Erase(uint64_t node_op) {
  (void)local_.Erase(kFamily, KeyOf(node_op));
  shown_.erase(node_op);
  changed_.NotifyAll();
}

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
  for (const char kind : {kAsked, kShown}) {
    auto scanned =
        local_.Scan(kFamily, std::string_view(&kind, 1), {},
                    [&](std::string_view key, std::string_view) QUADFS_NO_THREAD_SAFETY_ANALYSIS {
                      RowDecoder row(key.substr(1));
                      const uint64_t number = row.Big64();
                      open_.insert(number);
                      if (kind == kShown) shown_.insert(number);
                      return true;
                    });
    if (!scanned.ok()) return scanned;
  }
  return {};
}

Result<Journal::Ticket> Journal::Add(const Operation& operation, bool shown) {
  Ticket ticket;
  std::string key;
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
    if (shown) shown_.insert(ticket.node_op);
    ticket.answered_below = *open_.begin();
    key = KeyOf(ticket.node_op);
  }
  if (auto put = local_.Put(kFamily, key, Encode(operation)); !put.ok()) {
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
  Erase(node_op);
}

void Journal::Committed(uint64_t node_op) {
  MutexLock lock(mutex_);
  if (open_.contains(node_op)) {
    early_.insert(node_op);
    return;
  }
  if (accepted_.erase(node_op) > 0) Erase(node_op);
}

Result<std::map<uint64_t, Operation>> Journal::Unanswered(bool shown) const {
  std::map<uint64_t, std::string> keys;
  {
    MutexLock lock(mutex_);
    for (const uint64_t number : open_) {
      if (shown_.contains(number) == shown) keys.emplace(number, KeyOf(number));
    }
  }
  std::map<uint64_t, Operation> found;
  for (const auto& [number, key] : keys) {
    const auto value = local_.Get(kFamily, key);
    if (!value.ok()) continue;
    found.emplace(number, QUADFS_TRY(DecodeOperation(*value)));
  }
  return found;
}

uint64_t Journal::answered_below() const {
  MutexLock lock(mutex_);
  return open_.empty() ? next_ : *open_.begin();
}

std::set<uint64_t> Journal::Reopen() {
  MutexLock lock(mutex_);
  std::set<uint64_t> reopened;
  for (const uint64_t number : accepted_) {
    if (!shown_.contains(number)) reopened.insert(number);
  }
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
