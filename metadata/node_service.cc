#include "metadata/node_service.h"

#include <algorithm>
#include <utility>

#include "metadata/codec.h"
#include "metadata/proto/wire.pb.h"
#include "metadata/row_bytes.h"
#include "metadata/wire.h"

namespace quadfs::metadata {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kInodeFamily[] = "journal";
constexpr char kInodeKey[] = "inodes";
constexpr auto kLockRound = milliseconds(2000);
constexpr size_t kMaxQueued = 65536;  ///< Own operations that the hub has not taken.

bool OutcomeUnknown(const Error& error) { return error.code() == ErrorCode::kTimedOut; }

wire::Lock ToWire(const LockRequest& request, uint32_t verb) {
  wire::Lock lock;
  lock.set_inode(request.inode.value);
  lock.set_kind(static_cast<uint32_t>(request.kind));
  lock.set_type(static_cast<uint32_t>(request.type));
  lock.set_owner(request.owner);
  lock.set_first_byte(request.first_byte);
  lock.set_last_byte(request.last_byte);
  lock.set_pid(request.pid);
  lock.set_verb(verb);
  return lock;
}

}  // namespace

Result<std::unique_ptr<NodeReplica>> NodeReplica::Open(Options options, LocalStore& local,
                                                       transport::Client& hub,
                                                       ChangeListener& listener) {
  auto node = std::make_unique<NodeService>(std::move(options), local, hub, listener);
  if (auto ready = node->Init(); !ready.ok()) return std::move(ready).error();
  return std::unique_ptr<NodeReplica>(std::move(node));
}

NodeService::NodeService(Options options, LocalStore& local, transport::Client& hub,
                         ChangeListener& listener)
    : options_(std::move(options)),
      local_(local),
      hub_(hub),
      changes_(listener),
      journal_(local),
      feed_(options_, options_.cluster, hub, changes_,
            {.on_committed = [this](uint64_t node_op) { journal_.Committed(node_op); },
             .on_rebuilt =
                 [this] {
                   // The new hub answers what it knows and does the rest.
                   const std::set<uint64_t> reopened = journal_.Reopen();
                   ReplayOwn();
                   MutexLock lock(repeat_mutex_);
                   unknown_.insert(reopened.begin(), reopened.end());
                   repeat_wake_.NotifyAll();
                 },
             .on_link =
                 [this](bool trusted) {
                   if (delegations_.SetLink(trusted)) GiveUpDelegations();
                 },
             .on_recall =
                 [this](std::vector<Delegation> demanded) {
                   delegations_.Recall(demanded);
                   feed_.Quiesce();
                   shipper_.Return(std::move(demanded));
                 },
             .on_flush_demand = [this](uint64_t number) { shipper_.Answer(number); }}),
      shipper_(hub,
               {.on_outcome = [this](const OpShipper::Outcome& outcome) { OnOutcome(outcome); },
                .on_heard = [this](Clock::TimePoint sent) { delegations_.Heard(sent); },
                .on_returned_all = [this] { delegations_.GivenUp(); },
                .answered_below = [this] { return journal_.answered_below(); },
                .keep_alive = [this] { return delegations_.size() > 0; }}) {}

Result<void> NodeService::Init() {
  if (auto opened = journal_.Open(); !opened.ok()) return opened;
  const auto unanswered = QUADFS_TRY(journal_.Unanswered(/*shown=*/false));
  {
    MutexLock lock(repeat_mutex_);
    for (const auto& [number, operation] : unanswered) unknown_.insert(number);
  }
  const auto block = local_.Get(kInodeFamily, kInodeKey);
  if (block.ok()) {
    RowDecoder row(*block);
    MutexLock lock(inode_mutex_);
    next_inode_ = row.Little<uint64_t>();
    inode_end_ = row.Little<uint64_t>();
    // What an earlier run used of the block is not known: the block is skipped.
    next_inode_ = inode_end_;
  }
  if (auto opened = feed_.Open(); !opened.ok()) return opened;
  ReplayOwn();
  // Of an earlier run's delegations nothing is known here.
  shipper_.ReturnAll();
  return {};
}

void NodeService::ReplayOwn() {
  shipper_.Clear();
  const auto own = journal_.Unanswered(/*shown=*/true);
  if (!own.ok()) return;
  for (const auto& [number, operation] : *own) {
    feed_.Replay(number, operation);
    shipper_.Add(number, Encode(operation));
  }
}

void NodeService::GiveUpDelegations() {
  delegations_.GiveUpAll();
  feed_.Quiesce();
  shipper_.ReturnAll();
}

void NodeService::OnOutcome(const OpShipper::Outcome& outcome) {
  if (!outcome.refused) {
    journal_.Answered(outcome.node_op, outcome.pending);
    feed_.Settle(outcome.node_op, outcome.view);
    return;
  }
  const auto own = journal_.Unanswered(/*shown=*/true);
  feed_.Undo(outcome.node_op);
  if (own.ok() && own->contains(outcome.node_op)) {
    changes_.Post([operation = own->at(outcome.node_op), why = *outcome.refused](
                      ChangeListener& listener) { listener.OnRefused(operation, why); });
  }
  journal_.Answered(outcome.node_op, false);
}

Result<void> NodeService::Start(Deadline deadline) {
  if (!repeater_.joinable()) {  // Called again after a failure, it only waits again.
    feed_.Start();
    shipper_.Start();
    repeater_ = std::jthread([this](std::stop_token stop) { Repeat(stop); });
  }
  return feed_.WaitReady(deadline);
}

void NodeService::Stop() {
  {
    MutexLock lock(repeat_mutex_);
    stopping_ = true;
    repeat_wake_.NotifyAll();
  }
  repeater_.request_stop();
  if (repeater_.joinable()) repeater_.join();
  shipper_.Stop();
  feed_.Stop();
  changes_.Stop();
}

NodeReplica::Status NodeService::status() const {
  Status status = feed_.status();
  status.journal_entries = journal_.size();
  status.delegations = delegations_.size();
  status.untold = shipper_.size();
  return status;
}

Result<NodeService::Sent> NodeService::Send(const Operation& operation,
                                            const Journal::Ticket& ticket, Deadline deadline) {
  wire::OpRequest request;
  request.set_node_op(ticket.node_op);
  request.set_answered_below(ticket.answered_below);
  request.set_operation(Encode(operation));
  const auto begun = std::chrono::steady_clock::now();
  auto answer = CallService<wire::OpAnswer>(hub_, "/v1/ops", request, deadline);
  if (!answer.ok()) return std::move(answer).error();
  delegations_.Heard(begun);
  Sent sent;
  sent.result = QUADFS_TRY(DecodeOpResult(answer->result()));
  sent.pending = answer->pending();
  for (const wire::Delegation& one : answer->delegated()) {
    sent.delegated.push_back({InodeId(one.directory()), one.number()});
    sent.trust = milliseconds(one.trust_ms());
  }
  return sent;
}

Result<OpResult> NodeService::Submit(const Operation& operation, Deadline deadline) {
  if (shipper_.size() < kMaxQueued) {
    auto done = feed_.ExecuteHere(
        operation, delegations_, [this](const Operation& own) -> Result<uint64_t> {
          const auto ticket = QUADFS_TRY(journal_.Add(own, /*shown=*/true));
          shipper_.Add(ticket.node_op, Encode(own));
          return ticket.node_op;
        });
    if (!done.ok()) return std::move(done).error();
    if (std::optional<OpResult>& here = *done) {
      if (auto excess = delegations_.TakeExcess(); !excess.empty()) {
        feed_.Quiesce();
        shipper_.Return(std::move(excess));
      }
      return *std::move(here);
    }
  }
  return SubmitToHub(operation, deadline);
}

Result<OpResult> NodeService::SubmitToHub(const Operation& operation, Deadline deadline) {
  // What it needs may change until nothing is done here any more in these directories.
  Delegations::Pause pause(delegations_);
  for (int look = 0; look < 2; ++look) {
    const auto needs = feed_.NeedsOf(operation);
    if (!needs.ok()) break;
    pause.Add(needs->directories);
    feed_.Quiesce();
  }
  if (auto flushed = shipper_.Flush(deadline, /*patient=*/false); !flushed.ok())
    return std::move(flushed).error();
  const uint64_t turn = delegations_.turn();
  const Journal::Ticket ticket = QUADFS_TRY(journal_.Add(operation, /*shown=*/false));
  auto done = Send(operation, ticket, deadline);
  if (!done.ok() && OutcomeUnknown(done.error())) {
    MutexLock lock(repeat_mutex_);
    unknown_.insert(ticket.node_op);
    repeat_wake_.NotifyAll();
    return std::move(done).error();
  }
  journal_.Answered(ticket.node_op, done.ok() && done->pending);
  if (!done.ok()) return std::move(done).error();
  if (auto applied = feed_.WaitApplied(done->result.view, deadline); !applied.ok()) {
    return std::move(applied).error();
  }
  if (!done->delegated.empty()) delegations_.Take(done->delegated, done->trust, turn);
  return std::move(done->result);
}

void NodeService::Repeat(std::stop_token stop) {
  while (!stop.stop_requested()) {
    {
      MutexLock lock(repeat_mutex_);
      if (stopping_) return;
      repeat_wake_.WaitFor(repeat_mutex_, milliseconds(500));
      if (stopping_) return;
      if (unknown_.empty()) continue;
    }
    // After what was done here itself.
    if (!feed_.status().connected || shipper_.size() > 0) continue;
    const auto waiting = journal_.Unanswered(/*shown=*/false);
    if (!waiting.ok()) continue;
    for (const auto& [number, operation] : *waiting) {
      {
        MutexLock lock(repeat_mutex_);
        if (!unknown_.contains(number)) continue;  // Its first attempt is still under way.
      }
      const auto done =
          Send(operation, {number, journal_.answered_below()}, Deadline::After(seconds(5)));
      if (!done.ok() &&
          (OutcomeUnknown(done.error()) || done.error().code() == ErrorCode::kUnavailable))
        break;
      journal_.Answered(number, done.ok() && done->pending);
      MutexLock lock(repeat_mutex_);
      unknown_.erase(number);
    }
  }
}

Result<void> NodeService::AskBarrier(bool through_main, const std::set<InodeId>& directories,
                                     Deadline deadline) {
  wire::BarrierRequest request;
  request.set_through_main(through_main);
  for (const InodeId directory : directories) request.add_directories(directory.value);
  const auto answer =
      QUADFS_TRY(CallService<wire::BarrierAnswer>(hub_, "/v1/barrier", request, deadline));
  return feed_.WaitApplied(SequenceNumber(answer.sequence()), deadline);
}

Result<void> NodeService::Flush(Deadline deadline, bool patient) {
  if (shipper_.size() == 0) return {};
  if (!patient) {
    if (auto synced = local_.Sync(); !synced.ok()) return synced;
  }
  return shipper_.Flush(deadline, patient);
}

Result<void> NodeService::Barrier(bool through_main, Deadline deadline, InodeId directory) {
  // Nobody else makes names in what is delegated to this node.
  if (!through_main && directory && delegations_.Cover({directory})) return {};
  MutexLock lock(barrier_mutex_);
  BarrierTurn& turn = barrier_[through_main ? 1 : 0];
  if (directory) turn.directories.insert(directory);
  // Only a request that begins after this call will do.
  const uint64_t wanted = turn.begun + 1;
  while (turn.finished < wanted) {
    if (turn.running) {
      if (!barrier_done_.WaitUntil(barrier_mutex_, deadline.at())) {
        return Error(ErrorCode::kTimedOut, "the hub does not answer");
      }
      continue;
    }
    turn.running = true;
    const uint64_t number = ++turn.begun;
    const std::set<InodeId> directories = std::exchange(turn.directories, {});
    barrier_mutex_.unlock();
    auto asked = AskBarrier(through_main, directories, deadline);
    barrier_mutex_.lock();
    turn.running = false;
    turn.finished = number;
    turn.outcome = std::move(asked);
    barrier_done_.NotifyAll();
  }
  return turn.outcome;
}

Result<InodeId> NodeService::NextInode(Deadline deadline) {
  MutexLock lock(inode_mutex_);
  if (next_inode_ >= inode_end_) {
    // One caller asks for all; the others wait for this lock, bounded by its deadline.
    auto answer = hub_.Call("POST", "/v1/inodes", {}, deadline);
    if (!answer.ok()) return std::move(answer).error();
    wire::InodeBlock block;
    if (!block.ParseFromString(answer->body) || block.count() == 0) {
      return Error(ErrorCode::kCorruption, "inode numbers from the hub cannot be read");
    }
    RowEncoder row;
    row.Little(block.first());
    row.Little(block.first() + block.count());
    if (auto put = local_.Put(kInodeFamily, kInodeKey, row.Take()); !put.ok())
      return std::move(put).error();
    next_inode_ = block.first();
    inode_end_ = block.first() + block.count();
  }
  return InodeId(next_inode_++);
}

Result<wire::LockAnswer> NodeService::CallLock(const wire::Lock& lock, Deadline deadline) {
  return CallService<wire::LockAnswer>(hub_, "/v1/lock", lock, deadline);
}

Result<void> NodeService::Lock(const LockRequest& request, Deadline deadline) {
  wire::Lock lock = ToWire(request, kLockVerbLock);
  const auto wait = std::min<milliseconds>(request.wait, kLockRound);
  lock.set_wait_ms(static_cast<uint32_t>(wait.count()));
  auto locked = CallLock(lock, deadline);
  return locked.ok() ? Result<void>() : Result<void>(std::move(locked).error());
}

Result<std::optional<LockHolder>> NodeService::TestLock(const LockRequest& request,
                                                        Deadline deadline) {
  const wire::LockAnswer answer = QUADFS_TRY(CallLock(ToWire(request, kLockVerbTest), deadline));
  std::optional<LockHolder> holder;
  if (answer.held()) {
    holder = LockHolder{static_cast<LockType>(answer.type()), answer.first_byte(),
                        answer.last_byte(), answer.pid()};
  }
  return holder;
}

Result<void> NodeService::ReleaseLocks(InodeId inode, uint64_t owner, Deadline deadline) {
  LockRequest request;
  request.inode = inode;
  request.owner = owner;
  request.type = LockType::kUnlock;
  auto released = CallLock(ToWire(request, kLockVerbReleaseOwner), deadline);
  return released.ok() ? Result<void>() : Result<void>(std::move(released).error());
}

Result<void> NodeService::SendMessage(uint32_t kind, std::string payload, Deadline deadline) {
  wire::SideMessage message;
  message.set_kind(kind);
  message.set_payload(std::move(payload));
  auto sent = CallService<wire::SessionAnswer>(hub_, "/v1/message", message, deadline);
  return sent.ok() ? Result<void>() : Result<void>(std::move(sent).error());
}

}  // namespace quadfs::metadata
