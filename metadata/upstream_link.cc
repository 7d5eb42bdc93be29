#include "metadata/upstream_link.h"

#include <algorithm>
#include <cstring>

#include "metadata/proto/wire.pb.h"
#include "metadata/wire.h"
#include "transport/frame.h"

namespace quadfs::metadata {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kSilence = seconds(3);
constexpr auto kSessionEvery = milliseconds(1000);
constexpr auto kFirstRetry = milliseconds(50);
constexpr auto kLastRetry = milliseconds(1000);

}  // namespace

UpstreamLink::UpstreamLink(Options options, HubCore& core, transport::Client& main,
                           ChangeQueue& changes)
    : options_(std::move(options)), core_(core), main_(main), changes_(changes) {}

void UpstreamLink::Start() {
  follower_ = std::jthread([this](std::stop_token stop) { Follow(stop); });
  shipper_ = std::jthread([this](std::stop_token stop) { Ship(stop); });
  session_ = std::jthread([this](std::stop_token stop) { KeepSession(stop); });
}

void UpstreamLink::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
    ship_wake_.NotifyAll();
    session_wake_.NotifyAll();
  }
  for (std::jthread* thread : {&follower_, &shipper_, &session_}) {
    thread->request_stop();
    if (thread->joinable()) thread->join();
  }
}

milliseconds UpstreamLink::MainSilent() const {
  MutexLock lock(mutex_);
  if (contact_ == Clock::TimePoint()) return milliseconds::max() / 2;
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - contact_);
}

bool UpstreamLink::Trusted() const { return MainSilent() < options_.session_trust; }

std::string UpstreamLink::problem() const {
  MutexLock lock(mutex_);
  return problem_;
}

void UpstreamLink::WaitFirstTry(Deadline deadline) const {
  MutexLock lock(mutex_);
  while (!tried_ && !stopping_ && changed_.WaitUntil(mutex_, deadline.at())) {
  }
}

void UpstreamLink::NoteContact(Clock::TimePoint sent) {
  bool back = false;
  {
    MutexLock lock(mutex_);
    back = !problem_.empty();
    contact_ = std::max(contact_, sent);
    problem_.clear();
    tried_ = true;
    changed_.NotifyAll();
  }
  if (back) changes_.Post([](ChangeListener& listener) { listener.OnLink(true); });
}

void UpstreamLink::NoteProblem(const std::string& problem) {
  bool lost = false;
  {
    MutexLock lock(mutex_);
    lost = problem_.empty();
    problem_ = problem;
    tried_ = true;
    changed_.NotifyAll();
  }
  if (lost) changes_.Post([](ChangeListener& listener) { listener.OnLink(false); });
}

Result<bool> UpstreamLink::Holds(const std::vector<InodeId>& directories) const {
  for (const InodeId directory : directories) {
    const auto holder = QUADFS_TRY(core_.LeaseOf(directory));
    if (!holder || *holder != options_.campus) return false;
  }
  return true;
}

bool UpstreamLink::IsHeld(const std::vector<InodeId>& directories, bool done_before) const {
  MutexLock lock(mutex_);
  return std::any_of(directories.begin(), directories.end(),
                     [&](InodeId directory) QUADFS_NO_THREAD_SAFETY_ANALYSIS {
                       return held_.contains(directory) ||
                              (!done_before && recalled_.contains(directory));
                     });
}

void UpstreamLink::WaitNotHeld(const std::vector<InodeId>& directories, Deadline deadline) const {
  MutexLock lock(mutex_);
  while (std::any_of(directories.begin(), directories.end(),
                     [&](InodeId directory)
                         QUADFS_NO_THREAD_SAFETY_ANALYSIS { return held_.contains(directory); })) {
    if (!changed_.WaitUntil(mutex_, deadline.at())) return;
  }
}

Result<void> UpstreamLink::Drain(Deadline deadline) {
  core_.Quiesce();
  const uint64_t through = core_.last_pending();
  MutexLock lock(mutex_);
  ship_wake_.NotifyOne();
  while (shipped_ < through && core_.pending_count() > 0) {
    if (stopping_) return Error(ErrorCode::kCancelled, "the hub is stopping");
    if (!changed_.WaitUntil(
            mutex_, std::min(deadline.at(), std::chrono::steady_clock::now() + milliseconds(50))) &&
        deadline.Passed()) {
      return Error(ErrorCode::kUnavailable, "main does not answer: " + problem_);
    }
  }
  return {};
}

Result<void> UpstreamLink::WaitApplied(uint64_t sequence, Deadline deadline) {
  MutexLock lock(mutex_);
  while (core_.global() < sequence) {
    if (stopping_) return Error(ErrorCode::kCancelled, "the hub is stopping");
    if (!changed_.WaitUntil(mutex_, deadline.at())) {
      return Error(ErrorCode::kTimedOut, "main's answer has not arrived with the log");
    }
  }
  return {};
}

void UpstreamLink::Ship(std::stop_token stop) {
  auto retry = kFirstRetry;
  while (!stop.stop_requested()) {
    uint64_t after = 0;
    {
      MutexLock lock(mutex_);
      after = shipped_;
      if (core_.pending_count() == 0 || after >= core_.last_pending()) {
        ship_wake_.WaitUntil(mutex_, std::chrono::steady_clock::now() + milliseconds(20));
        if (core_.pending_count() == 0 || after >= core_.last_pending()) continue;
      }
    }
    const auto pending = core_.Pending(after, kMaxBatchOperations, kMaxBatchBytes);
    if (!pending.ok() || pending->empty()) {
      if (pending.ok()) {
        MutexLock lock(mutex_);
        shipped_ = core_.last_pending();
      }
      continue;
    }
    wire::MergeRequest request;
    for (const auto& [number, bytes] : *pending) request.add_entries(bytes);
    const auto sent = std::chrono::steady_clock::now();
    const auto answer =
        CallService<wire::MergeAnswer>(main_, "/v1/merge", request, Deadline::After(seconds(10)));
    if (answer.ok()) {
      NoteContact(sent);
      retry = kFirstRetry;
      MutexLock lock(mutex_);
      shipped_ = std::max(shipped_, answer->merged());
      changed_.NotifyAll();
      continue;
    }
    NoteProblem(answer.error().message());
    MutexLock lock(mutex_);
    if (!stopping_) ship_wake_.WaitUntil(mutex_, std::chrono::steady_clock::now() + retry);
    retry = std::min<milliseconds>(retry * 2, kLastRetry);
  }
}

void UpstreamLink::KeepSession(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::vector<InodeId> give_back;
    {
      MutexLock lock(mutex_);
      if (to_give_back_.empty() && !stopping_) {
        session_wake_.WaitUntil(mutex_, std::chrono::steady_clock::now() + kSessionEvery / 4);
      }
      give_back.swap(to_give_back_);
    }
    if (!give_back.empty()) GiveBack(give_back);
    const auto sent = std::chrono::steady_clock::now();
    if (MainSilent() < kSessionEvery) continue;
    wire::SessionRequest request;
    request.set_applied(core_.global());
    const auto answer = CallService<wire::SessionAnswer>(main_, "/v1/session", request,
                                                         Deadline::After(seconds(3)));
    if (answer.ok()) {
      core_.SkipCampusOps(answer->merged());
      NoteContact(sent);
    } else {
      NoteProblem(answer.error().message());
    }
  }
}

void UpstreamLink::GiveBack(const std::vector<InodeId>& directories) {
  // An operation that saw the lease before it was recalled may still be giving a delegation.
  core_.Quiesce();
  // What nodes did, then what is pending goes first, on the same way, so that main executes on top
  // of it.
  if (options_.before_giving_back && !options_.before_giving_back(directories).ok()) return;
  if (!Drain(Deadline::After(seconds(5))).ok()) return;  // Main will ask again.
  wire::DirectoryList list;
  for (const InodeId directory : directories) list.add_directories(directory.value);
  const auto answer =
      CallService<wire::MergeAnswer>(main_, "/v1/lease", list, Deadline::After(seconds(5)));
  MutexLock lock(mutex_);
  if (!answer.ok()) {
    // Main will ask again; meanwhile nothing is executed here in them.
    return;
  }
  // The lease rows go with the log; until then the mark keeps us from using them.
}

Result<void> UpstreamLink::OnFrame(uint8_t type, const std::string& payload) {
  switch (static_cast<FrameType>(type)) {
    case FrameType::kStart: {
      wire::StreamStart start;
      Checksum chain;
      if (!start.ParseFromString(payload) || start.chain().size() != chain.bytes.size() ||
          start.position() != core_.global()) {
        return Error(ErrorCode::kCorruption, "the stream's start cannot be read");
      }
      std::memcpy(chain.bytes.data(), start.chain().data(), start.chain().size());
      core_.SetGlobalChain(chain);
      return {};
    }
    case FrameType::kEntries: {
      wire::EntryBatch batch;
      if (!batch.ParseFromString(payload))
        return Error(ErrorCode::kCorruption, "entries cannot be read");
      const std::vector<std::string> entries(batch.entries().begin(), batch.entries().end());
      if (auto applied = core_.ApplyGlobal(entries); !applied.ok()) return applied;
      MutexLock lock(mutex_);
      // A lease row that went is no longer recalled but simply not ours.
      for (auto it = recalled_.begin(); it != recalled_.end();) {
        const auto holder = core_.LeaseOf(*it);
        it = holder.ok() && *holder == options_.campus ? std::next(it) : recalled_.erase(it);
      }
      changed_.NotifyAll();
      return {};
    }
    case FrameType::kRecall: {
      wire::DirectoryList list;
      if (!list.ParseFromString(payload))
        return Error(ErrorCode::kCorruption, "a recall cannot be read");
      MutexLock lock(mutex_);
      for (const uint64_t directory : list.directories()) {
        recalled_.insert(InodeId(directory));
        to_give_back_.emplace_back(directory);
      }
      session_wake_.NotifyOne();
      return {};
    }
    case FrameType::kMessage: {
      wire::SideMessage side;
      if (!side.ParseFromString(payload))
        return Error(ErrorCode::kCorruption, "a message cannot be read");
      Message message{side.kind(), CampusId(side.campus()), NodeId(side.node()), side.payload()};
      changes_.Post([message](ChangeListener& listener) { listener.OnMessage(message); });
      return {};
    }
    default: return {};
  }
}

void UpstreamLink::Follow(std::stop_token stop) {
  auto retry = kFirstRetry;
  while (!stop.stop_requested()) {
    const uint64_t from = core_.global();
    const std::string target = "/v1/log?from=" + std::to_string(from) +
                               (from == 0 ? "" : "&chain=" + core_.global_chain().ToHex());
    transport::FrameReader reader;
    bool any = false;
    const auto followed =
        main_.Follow(target, kSilence, stop, [&](std::span<const std::byte> data) {
          any = true;
          return reader.Feed(data, [&](const transport::Frame& frame) {
            return OnFrame(frame.type, frame.payload);
          });
        });
    if (stop.stop_requested()) return;
    if (any) retry = kFirstRetry;
    NoteProblem(followed.ok() ? "main closed the stream" : followed.error().message());
    if (!followed.ok() && followed.error().code() == ErrorCode::kStale) {
      auto adopted = core_.AdoptSnapshot(main_);
      if (adopted.ok()) continue;
      NoteProblem(adopted.error().message());
    }
    MutexLock lock(mutex_);
    if (!stopping_) changed_.WaitUntil(mutex_, std::chrono::steady_clock::now() + retry);
    retry = std::min<milliseconds>(retry * 2, kLastRetry);
  }
}

}  // namespace quadfs::metadata
