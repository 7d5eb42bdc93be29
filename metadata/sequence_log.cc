#include "metadata/sequence_log.h"

#include <algorithm>
#include <cstring>

#include "metadata/row_bytes.h"
#include "transport/base/random.h"

namespace quadfs::metadata {
namespace {

std::string ChainBytes(const Checksum& chain) {
  return {reinterpret_cast<const char*>(chain.bytes.data()), chain.bytes.size()};
}

Result<SequenceLog::Item> Decode(std::string_view key, std::string_view value) {
  SequenceLog::Item item;
  const auto sequence = ParseNumberKey(key);
  if (!sequence || value.size() < item.chain.bytes.size()) {
    return Error(ErrorCode::kCorruption, "a log row cannot be read");
  }
  item.sequence = *sequence;
  std::memcpy(item.chain.bytes.data(), value.data(), item.chain.bytes.size());
  item.bytes = value.substr(item.chain.bytes.size());
  return item;
}

}  // namespace

RowKey SequenceLog::MetaName(std::string_view name) const {
  return MetaKey(std::string(FamilyName(family_)) + "." + std::string(name));
}

Result<void> SequenceLog::Open() {
  const auto state = QUADFS_TRY(store_.Read(MetaName("start")));
  MutexLock lock(mutex_);
  if (!state) {
    // A random seed: another log with the same numbers is another history.
    std::string seed = RandomHex(16);
    start_chain_ = ChecksumOf(std::as_bytes(std::span(seed)));
    RowEncoder row;
    row.Little(first_);
    row.Raw(ChainBytes(start_chain_));
    chain_ = start_chain_;
    return store_.Write({{MetaName("start"), row.Take()}}, true);
  }
  RowDecoder row(*state);
  first_ = row.Little<uint64_t>();
  const std::string_view chain = row.Raw(start_chain_.bytes.size());
  if (!row.ok()) return Error(ErrorCode::kCorruption, "the start of the log cannot be read");
  std::memcpy(start_chain_.bytes.data(), chain.data(), chain.size());
  chain_ = start_chain_;
  last_ = first_ - 1;
  const auto end = QUADFS_TRY(store_.Read(MetaName("end")));
  if (end) {
    RowDecoder tail(*end);
    last_ = tail.Little<uint64_t>();
    const std::string_view at = tail.Raw(chain_.bytes.size());
    if (!tail.ok()) return Error(ErrorCode::kCorruption, "the end of the log cannot be read");
    std::memcpy(chain_.bytes.data(), at.data(), at.size());
  }
  released_ = last_;
  return {};
}

uint64_t SequenceLog::Append(LogEntry& entry, std::vector<RowChange>& batch) {
  {
    MutexLock lock(mutex_);
    entry.sequence = SequenceNumber(last_ + 1);
  }
  return AppendVerbatim(Encode(entry), batch);
}

uint64_t SequenceLog::AppendVerbatim(const std::string& bytes, std::vector<RowChange>& batch) {
  auto item = std::make_shared<Item>();
  item->bytes = bytes;
  MutexLock lock(mutex_);
  item->sequence = ++last_;
  item->chain = chain_ = ChainChecksum(chain_, std::as_bytes(std::span(bytes)));
  batch.push_back({SequenceKey(family_, item->sequence), ChainBytes(item->chain) + bytes});
  RowEncoder end;
  end.Little(last_);
  end.Raw(ChainBytes(chain_));
  batch.push_back({MetaName("end"), end.Take()});
  tail_.push_back(std::move(item));
  if (tail_.size() > kTailEntries) tail_.pop_front();
  return last_;
}

void SequenceLog::Release(uint64_t sequence) {
  MutexLock lock(mutex_);
  released_ = std::max(released_, std::min(sequence, last_));
  changed_.NotifyAll();
}

uint64_t SequenceLog::last() const {
  MutexLock lock(mutex_);
  return last_;
}
uint64_t SequenceLog::released() const {
  MutexLock lock(mutex_);
  return released_;
}
uint64_t SequenceLog::first() const {
  MutexLock lock(mutex_);
  return first_;
}
Checksum SequenceLog::start_chain() const {
  MutexLock lock(mutex_);
  return start_chain_;
}
Checksum SequenceLog::chain() const {
  MutexLock lock(mutex_);
  return chain_;
}

Result<void> SequenceLog::CheckHistory(uint64_t sequence, const Checksum& chain) const {
  const Error stale(ErrorCode::kStale, "this log has another history: start again from a snapshot");
  {
    MutexLock lock(mutex_);
    if (sequence > released_ || sequence + 1 < first_) return stale;
    if (sequence + 1 == first_) return chain == start_chain_ ? Result<void>() : stale;
    if (sequence == last_) return chain == chain_ ? Result<void>() : stale;
  }
  const RowKey key = SequenceKey(family_, sequence);
  const auto row = QUADFS_TRY(store_.Read(key));
  if (!row) return stale;
  const Item item = QUADFS_TRY(Decode(key, *row));
  return item.chain == chain ? Result<void>() : stale;
}

Result<std::vector<std::shared_ptr<const SequenceLog::Item>>> SequenceLog::Read(
    uint64_t after, size_t max_bytes) const {
  std::vector<std::shared_ptr<const Item>> items;
  size_t bytes = 0;
  uint64_t limit = 0;
  {
    MutexLock lock(mutex_);
    if (after + 1 < first_)
      return Error(ErrorCode::kStale, "the log was trimmed beyond that entry");
    if (after >= released_) return items;
    limit = released_;
    if (!tail_.empty() && tail_.front()->sequence <= after + 1) {
      for (size_t i = static_cast<size_t>(after + 1 - tail_.front()->sequence); i < tail_.size();
           ++i) {
        if (tail_[i]->sequence > limit || (bytes > 0 && bytes + tail_[i]->bytes.size() > max_bytes))
          break;
        bytes += tail_[i]->bytes.size();
        items.push_back(tail_[i]);
      }
      return items;
    }
  }
  std::optional<Error> failure;
  auto scanned =
      store_.ScanPrefix(FamilyPrefix(family_), SequenceKey(family_, after + 1),
                        [&](std::string_view key, std::string_view value) {
                          auto item = Decode(key, value);
                          if (!item.ok()) {
                            failure = item.error();
                            return false;
                          }
                          if (item->sequence > limit) return false;
                          bytes += item->bytes.size();
                          items.push_back(std::make_shared<const Item>(*std::move(item)));
                          return bytes < max_bytes;
                        });
  if (!scanned.ok()) return std::move(scanned).error();
  if (failure) return *failure;
  if (items.empty() || items.front()->sequence != after + 1) {
    return Error(ErrorCode::kStale, "the log was trimmed beyond that entry");
  }
  return items;
}

bool SequenceLog::WaitBeyond(uint64_t after, Clock::TimePoint deadline) const {
  MutexLock lock(mutex_);
  const uint64_t pokes = pokes_;
  while (released_ <= after && pokes == pokes_) {
    if (!changed_.WaitUntil(mutex_, deadline)) return released_ > after;
  }
  return released_ > after;
}

void SequenceLog::Poke() {
  MutexLock lock(mutex_);
  ++pokes_;
  changed_.NotifyAll();
}

void SequenceLog::Restart(uint64_t sequence, const Checksum& chain, std::vector<RowChange>& batch) {
  MutexLock lock(mutex_);
  first_ = sequence + 1;
  last_ = released_ = sequence;
  chain_ = start_chain_ = chain;
  tail_.clear();
  RowEncoder row;
  row.Little(first_);
  row.Raw(ChainBytes(chain));
  batch.push_back({MetaName("start"), row.Take()});
  batch.push_back({MetaName("end"), std::nullopt});
}

Result<void> SequenceLog::Trim(uint64_t keep_bytes) {
  const uint64_t last = released();
  uint64_t from = first();
  if (last < from) return {};
  const uint64_t bytes =
      store_.ApproximateBytes(family_, SequenceKey(family_, from), SequenceKey(family_, last + 1));
  if (bytes <= keep_bytes) return {};
  const auto share = static_cast<double>(bytes - keep_bytes) / static_cast<double>(bytes);
  const uint64_t until = from + static_cast<uint64_t>(static_cast<double>(last - from) * share);
  if (until <= from) return {};
  const RowKey key = SequenceKey(family_, until);
  const auto kept = QUADFS_TRY(store_.Read(key));
  if (!kept) return {};
  const Item item = QUADFS_TRY(Decode(key, *kept));
  RowEncoder row;
  row.Little(until + 1);
  row.Raw(ChainBytes(item.chain));
  if (auto written = store_.Write({{MetaName("start"), row.Take()}}, true); !written.ok())
    return written;
  {
    MutexLock lock(mutex_);
    first_ = until + 1;
    start_chain_ = item.chain;
  }
  return store_.EraseRange(family_, SequenceKey(family_, 0), SequenceKey(family_, until + 1));
}

}  // namespace quadfs::metadata
