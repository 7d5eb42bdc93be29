#include "fs/data/write_back.h"

#include <algorithm>
#include <thread>

#include "fs/data/rate_meter.h"
#include "fs/data/uploader.h"
#include "fs/data/write_back_queue.h"
#include "transport/base/mutex.h"

namespace quadfs::fs {
namespace {

constexpr std::chrono::milliseconds kMaxBackOff{30000};
constexpr std::chrono::milliseconds kMaxHold{3000};
constexpr uint8_t kRowVersion = 1;

std::string BigEndian(uint64_t number) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>((number >> shift) & 0xFF));
  }
  return bytes;
}

uint64_t FromBigEndian(std::string_view bytes) {
  uint64_t number = 0;
  for (const char byte : bytes) number = (number << 8) | static_cast<unsigned char>(byte);
  return number;
}

/// Row: version 1, inode 8, generation 8; its key is the number in the queue, 8 bytes.
std::string EncodeRow(const ObjectId& object) {
  return std::string(1, static_cast<char>(kRowVersion)) + BigEndian(object.inode.value) +
         BigEndian(object.generation.value);
}

std::optional<ObjectId> DecodeRow(std::string_view key, std::string_view value) {
  if (key.size() != 8 || value.size() != 17 || value[0] != static_cast<char>(kRowVersion)) {
    return std::nullopt;
  }
  return ObjectId{InodeId(FromBigEndian(value.substr(1, 8))),
                  Generation(FromBigEndian(value.substr(9, 8)))};
}

class WriteBackImpl final : public WriteBack {
 public:
  WriteBackImpl(Options options, metadata::LocalStore& local, UploadReader& reader,
                transport::Client& upstream)
      : options_(std::move(options)),
        local_(local),
        reader_(reader),
        bucket_(options_.limit_bytes_per_second, Clock::System()),
        uploader_(upstream, reader, bucket_),
        queue_(options_.large_bytes) {}
  ~WriteBackImpl() override { Stop(); }

  Result<void> Load();
  void Start();

  Result<void> Enqueue(const ObjectId& object, bool sync) override;
  void Hurry(InodeId inode) override;
  Result<void> WaitDrained(std::optional<InodeId> inode, Deadline deadline) override;
  std::vector<Entry> Entries(size_t limit) const override;
  Status status() const override;
  void SetLimit(uint64_t bytes_per_second) override { bucket_.SetRate(bytes_per_second); }
  void SetPaused(bool paused) override;
  void Stop() override;

 private:
  enum class Outcome : uint8_t { kSaved, kDropped, kFailed };
  void Work(const std::stop_token& stop);
  std::optional<uint64_t> Next() QUADFS_REQUIRES(mutex_);
  Outcome Send(uint64_t number, const ObjectId& object, const std::stop_token& stop,
               std::optional<Error>& error);
  void Finish(uint64_t number, const ObjectId& object, Outcome outcome,
              const std::optional<Error>& error);
  void HoldAll(const Error& error) QUADFS_REQUIRES(mutex_);

  const Options options_;
  metadata::LocalStore& local_;
  UploadReader& reader_;
  TokenBucket bucket_;
  Uploader uploader_;

  mutable Mutex mutex_;
  CondVar work_, drained_;
  WriteBackQueue queue_ QUADFS_GUARDED_BY(mutex_);
  mutable RateMeter meter_ QUADFS_GUARDED_BY(mutex_);
  uint64_t next_number_ QUADFS_GUARDED_BY(mutex_) = 1;
  uint64_t sent_bytes_ QUADFS_GUARDED_BY(mutex_) = 0;
  uint32_t large_active_ QUADFS_GUARDED_BY(mutex_) = 0;
  uint32_t unreachable_ QUADFS_GUARDED_BY(mutex_) = 0;  ///< Failures in a row to reach the hub.
  Clock::TimePoint held_until_ QUADFS_GUARDED_BY(mutex_){};
  bool paused_ QUADFS_GUARDED_BY(mutex_) = false;
  bool stopping_ QUADFS_GUARDED_BY(mutex_) = false;
  std::string problem_ QUADFS_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;  ///< Constant until Stop.
};

Result<void> WriteBackImpl::Load() {
  std::vector<std::pair<uint64_t, ObjectId>> rows;
  metadata::LocalStore::Batch gone;
  auto scanned =
      local_.Scan(options_.family, "", "", [&](std::string_view key, std::string_view value) {
        if (const auto object = DecodeRow(key, value)) {
          rows.emplace_back(FromBigEndian(key), *object);
        } else {
          gone.Erase(options_.family, std::string(key));  // The cache still knows it as unsaved.
        }
        return true;
      });
  if (!scanned.ok()) return std::move(scanned).error().Within("write-back queue");
  std::vector<std::pair<uint64_t, ObjectId>> superseded;
  for (const auto& [number, object] : rows) {
    const uint64_t size = reader_.SizeOf(object);
    MutexLock lock(mutex_);
    next_number_ = std::max(next_number_, number + 1);
    if (!queue_.Add(number, object, size, superseded)) {
      gone.Erase(options_.family, BigEndian(number));
    }
  }
  for (const auto& [number, object] : superseded) {
    gone.Erase(options_.family, BigEndian(number));
    reader_.Dropped(object);
  }
  return gone.items.empty() ? Result<void>() : local_.Write(gone);
}

void WriteBackImpl::Start() {
  for (uint32_t i = 0; i < std::max(options_.uploads, 1U); ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
  }
}

Result<void> WriteBackImpl::Enqueue(const ObjectId& object, bool sync) {
  const uint64_t size = reader_.SizeOf(object);
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    if (stopping_) return Error(ErrorCode::kCancelled, "the write-back queue stops");
    if (queue_.Contains(object)) return {};
    number = next_number_++;
  }
  // The row first: an entry whose row could not be written must not look durable.
  if (auto put = local_.Put(options_.family, BigEndian(number), EncodeRow(object)); !put.ok()) {
    return std::move(put).error().Within("write-back queue");
  }
  if (sync) {
    if (auto synced = local_.Sync(); !synced.ok()) {
      return std::move(synced).error().Within("write-back queue");
    }
  }
  metadata::LocalStore::Batch gone;
  std::vector<std::pair<uint64_t, ObjectId>> superseded;
  {
    MutexLock lock(mutex_);
    if (!queue_.Add(number, object, size, superseded)) {
      gone.Erase(options_.family, BigEndian(number));
    }
    work_.NotifyOne();
  }
  for (const auto& [older, older_object] : superseded) {
    gone.Erase(options_.family, BigEndian(older));
    reader_.Dropped(older_object);
  }
  return gone.items.empty() ? Result<void>() : local_.Write(gone);
}

void WriteBackImpl::Hurry(InodeId inode) {
  MutexLock lock(mutex_);
  if (!queue_.Holds(inode)) return;
  queue_.Hurry(inode);
  work_.NotifyAll();
}

Result<void> WriteBackImpl::WaitDrained(std::optional<InodeId> inode, Deadline deadline) {
  MutexLock lock(mutex_);
  while (queue_.Holds(inode)) {
    if (stopping_) return Error(ErrorCode::kCancelled, "the write-back queue stops");
    if (!drained_.WaitUntil(mutex_, deadline.at()) && queue_.Holds(inode)) {
      return Error(ErrorCode::kTimedOut,
                   "not saved yet" + (problem_.empty() ? "" : ": " + problem_));
    }
  }
  return {};
}

std::vector<WriteBack::Entry> WriteBackImpl::Entries(size_t limit) const {
  MutexLock lock(mutex_);
  std::vector<Entry> entries;
  for (const auto& [number, item] : queue_.items()) {
    if (entries.size() == limit) break;
    entries.push_back({item.object, item.size_bytes, item.sent_bytes, item.attempts, item.problem});
  }
  return entries;
}

WriteBack::Status WriteBackImpl::status() const {
  MutexLock lock(mutex_);
  return {queue_.items().size(),
          queue_.queued_bytes(),
          sent_bytes_,
          meter_.BytesPerSecond(std::chrono::steady_clock::now()),
          paused_,
          problem_};
}

void WriteBackImpl::SetPaused(bool paused) {
  MutexLock lock(mutex_);
  paused_ = paused;
  work_.NotifyAll();
}

void WriteBackImpl::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    work_.NotifyAll();
    drained_.NotifyAll();
  }
  for (auto& thread : threads_) thread.request_stop();
  threads_.clear();
}

/// The next object to send; none: wait for work_, at most until something is due.
std::optional<uint64_t> WriteBackImpl::Next() {
  const auto now = std::chrono::steady_clock::now();
  if (paused_) {
    work_.Wait(mutex_);
    return std::nullopt;
  }
  if (now < held_until_) {
    work_.WaitUntil(mutex_, held_until_);
    return std::nullopt;
  }
  if (auto number = queue_.Take(now, large_active_ < options_.large_uploads)) return number;
  if (const auto due = queue_.NextDue()) {
    work_.WaitUntil(mutex_, *due);
  } else {
    work_.Wait(mutex_);
  }
  return std::nullopt;
}

void WriteBackImpl::Work(const std::stop_token& stop) {
  for (;;) {
    uint64_t number = 0;
    ObjectId object;
    {
      MutexLock lock(mutex_);
      std::optional<uint64_t> next;
      while (!stopping_ && !(next = Next())) {
      }
      if (stopping_) return;
      number = *next;
      object = queue_.Find(number)->object;
      if (queue_.IsLarge(*queue_.Find(number))) ++large_active_;
    }
    std::optional<Error> error;
    const Outcome outcome = Send(number, object, stop, error);
    Finish(number, object, outcome, error);
  }
}

WriteBackImpl::Outcome WriteBackImpl::Send(uint64_t number, const ObjectId& object,
                                           const std::stop_token& stop,
                                           std::optional<Error>& error) {
  auto need = reader_.NeedOf(object);
  if (need == UploadReader::Need::kDrop) return Outcome::kDropped;
  if (need == UploadReader::Need::kWait) {
    error = Error(ErrorCode::kBusy, "not known yet whether it is still needed");
    return Outcome::kFailed;
  }
  auto sent = uploader_.Send(object, stop, [&](uint64_t bytes) {
    MutexLock lock(mutex_);
    sent_bytes_ += bytes;
    meter_.Add(bytes, std::chrono::steady_clock::now());
    if (auto* item = queue_.Find(number)) item->sent_bytes += bytes;
  });
  if (sent.ok()) return Outcome::kSaved;
  error = std::move(sent).error();
  const bool gone = error->code() == ErrorCode::kStale || error->code() == ErrorCode::kNotFound;
  // Only our own view may say that bytes nobody else has are not needed.
  if (gone && reader_.NeedOf(object) == UploadReader::Need::kDrop) return Outcome::kDropped;
  return Outcome::kFailed;
}

void WriteBackImpl::HoldAll(const Error& error) {
  const bool unreachable =
      error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kTimedOut;
  unreachable_ = unreachable ? unreachable_ + 1 : 0;
  if (!unreachable) return;
  const auto hold = std::min<std::chrono::milliseconds>(
      kMaxHold, options_.first_back_off * (1 << std::min(unreachable_ - 1, 5U)));
  held_until_ = std::chrono::steady_clock::now() + hold;
}

void WriteBackImpl::Finish(uint64_t number, const ObjectId& object, Outcome outcome,
                           const std::optional<Error>& error) {
  std::optional<Error> local_failure;
  if (outcome != Outcome::kFailed) {
    // Told before the row goes: a crash in between only makes the hub say once more that it has it.
    if (outcome == Outcome::kSaved) reader_.Saved(object);
    if (outcome == Outcome::kDropped) reader_.Dropped(object);
    if (auto erased = local_.Erase(options_.family, BigEndian(number)); !erased.ok()) {
      local_failure = std::move(erased).error();
    }
  }
  MutexLock lock(mutex_);
  auto* item = queue_.Find(number);
  if (item != nullptr && queue_.IsLarge(*item)) --large_active_;
  if (outcome == Outcome::kFailed && item != nullptr) {
    ++item->attempts;
    item->sent_bytes = 0;
    item->problem = error ? error->ToString() : "";
    problem_ = cache::ObjectName(object) + ": " + item->problem;
    const auto back_off = std::min<std::chrono::milliseconds>(
        kMaxBackOff, options_.first_back_off * (1 << std::min(item->attempts - 1, 10U)));
    queue_.Later(number, std::chrono::steady_clock::now() + back_off);
    if (error) HoldAll(*error);
  } else {
    queue_.Remove(number);
    unreachable_ = 0;
    problem_ = local_failure ? local_failure->ToString() : "";
    drained_.NotifyAll();
  }
  work_.NotifyAll();
}

}  // namespace

Result<std::unique_ptr<WriteBack>> WriteBack::Create(Options options, metadata::LocalStore& local,
                                                     UploadReader& reader,
                                                     transport::Client& upstream) {
  auto queue = std::make_unique<WriteBackImpl>(std::move(options), local, reader, upstream);
  if (auto loaded = queue->Load(); !loaded.ok()) return std::move(loaded).error();
  queue->Start();
  return std::unique_ptr<WriteBack>(std::move(queue));
}

const char* SaveStateName(SaveState state) {
  switch (state) {
    case SaveState::kDirty: return "dirty";
    case SaveState::kLocal: return "local";
    case SaveState::kCampus: return "campus";
    case SaveState::kArchived: return "archived";
    case SaveState::kVerified: return "verified";
  }
  return "unknown";
}

}  // namespace quadfs::fs
