#include "metadata/hub_service.h"

#include <algorithm>

#include "metadata/execute.h"

namespace quadfs::metadata {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace

Result<std::unique_ptr<Hub>> Hub::Open(Options options, transport::Client* upstream,
                                       ChangeListener& listener) {
  auto hub = std::make_unique<HubService>(std::move(options), upstream, listener);
  if (auto ready = hub->Init(); !ready.ok()) return std::move(ready).error();
  return std::unique_ptr<Hub>(std::move(hub));
}

Result<void> HubService::Init() {
  HubCore::Options core;
  core.directory = options_.directory;
  core.cluster = options_.cluster;
  core.campus = options_.campus;
  core.primary = primary();
  core.block_cache_bytes = options_.block_cache_bytes;
  core_ = QUADFS_TRY(HubCore::Open(core, changes_));
  streams_ = std::make_unique<StreamRegistry>(core_->view_log(), options_.heartbeat,
                                              [this] { return Heartbeat(); });
  DelegationTable::Options delegations;
  delegations.campus = options_.campus;
  delegations.session_ttl = options_.session_ttl;
  delegations_ = std::make_unique<DelegationTable>(
      delegations, *streams_, QUADFS_TRY(core_->DelegationHolders()),
      [this](NodeId node, bool holds) { return core_->SetDelegationHolder(node, holds); });
  if (primary()) {
    leases_ = std::make_unique<LeaseTable>(*core_, *streams_, options_.session_ttl);
  } else {
    UpstreamLink::Options link;
    link.campus = options_.campus;
    link.cluster = options_.cluster;
    link.session_trust = options_.session_trust;
    link.heartbeat = options_.heartbeat;
    link.before_giving_back = [this](const std::vector<InodeId>& directories) {
      return delegations_->Free(directories, NodeId(), Deadline::After(seconds(3)));
    };
    link_ = std::make_unique<UpstreamLink>(link, *core_, *upstream_, changes_);
  }
  return {};
}

Result<void> HubService::Start() {
  if (link_) link_->Start();
  tender_ = std::jthread([this](std::stop_token stop) { Tend(stop); });
  return {};
}

void HubService::Stop() {
  {
    MutexLock lock(tend_mutex_);
    stopping_ = true;
    tend_wake_.NotifyAll();
  }
  if (tender_.joinable()) tender_.join();
  locks_.Stop();
  if (delegations_) delegations_->Stop();
  if (streams_) streams_->Stop();
  if (link_) link_->Stop();
  changes_.Stop();
}

std::string HubService::Heartbeat() const {
  wire::Heartbeat beat;
  beat.set_position(core_->view_log().released());
  const bool connected = !link_ || link_->Trusted();
  beat.set_main_connected(connected);
  beat.set_main_silent_ms(
      link_ ? static_cast<uint64_t>(std::min<int64_t>(link_->MainSilent().count(), 1'000'000'000))
            : 0);
  return beat.SerializeAsString();
}

void HubService::Tend(std::stop_token stop) {
  std::map<NodeId, Clock::TimePoint> lost;
  auto next_trim = std::chrono::steady_clock::now() + seconds(60);
  while (!stop.stop_requested()) {
    {
      MutexLock lock(tend_mutex_);
      if (stopping_) return;
      tend_wake_.WaitFor(tend_mutex_, milliseconds(500));
      if (stopping_) return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (now > next_trim) {
      (void)core_->Trim(options_.log_keep_bytes);
      next_trim = now + seconds(60);
    }
    DropLocksOfTheLost(now, lost);
    delegations_->Tend();
    if (!primary()) continue;
    // Of a campus whose hub is silent, main cannot know more.
    for (const auto& [campus, node] : locks_.Holders()) {
      if (campus != options_.campus && leases_->Silent(campus) > options_.session_ttl) {
        locks_.ReleaseCampus(campus);
      }
    }
  }
}

void HubService::DropLocksOfTheLost(Clock::TimePoint now,
                                    std::map<NodeId, Clock::TimePoint>& lost) {
  const auto members = view().Members();
  if (!members.ok()) return;
  for (const Member& member : *members) {
    if (!member.node || member.campus != options_.campus) continue;
    if (streams_->IsConnected(member.campus, member.node)) {
      lost.erase(member.node);
      continue;
    }
    const auto [since, first] = lost.emplace(member.node, now);
    // Told once a loss; the far future marks it.
    if (first || now < since->second || now - since->second < options_.session_ttl) continue;
    wire::Lock lock;
    lock.set_campus(options_.campus.value);
    lock.set_node(member.node.value);
    lock.set_verb(kLockVerbReleaseNode);
    const bool told = primary() ? LockHere(lock).ok()
                                : CallService<wire::LockAnswer>(*upstream_, "/v1/lock", lock,
                                                                Deadline::After(seconds(2)))
                                      .ok();
    if (told) since->second = Clock::TimePoint::max();
  }
}

Result<OpResult> HubService::Submit(const Operation& operation, Deadline deadline) {
  Request request{operation, {options_.campus, NodeId(), 0, 0}, false, false, {}};
  HubCore::Accepted accepted = QUADFS_TRY(Run(request, deadline));
  if (auto finished = Finish(accepted.sequence); !finished.ok()) {
    return std::move(finished).error();
  }
  return std::move(accepted.result);
}

Result<Member> HubService::Enroll(const Member& wanted, Deadline deadline) {
  if (!primary()) return Error(ErrorCode::kInvalidArgument, "only main enrols");
  Member member = wanted;
  const auto members = QUADFS_TRY(view().Members());
  const bool is_node = wanted.node.value != 0;
  for (const Member& known : members) {
    if (known.name != wanted.name || (known.node.value != 0) != is_node) continue;
    if (is_node && known.campus != wanted.campus) {
      return Error(ErrorCode::kExists, "another campus has a node called " + wanted.name);
    }
    member.campus = known.campus;
    member.node = known.node;
    if (known.addresses == wanted.addresses) return known;
  }
  if (!is_node && member.campus.value == 0) {
    member.campus = CampusId(QUADFS_TRY(core_->NextCounter("next_campus", 2)));
  }
  if (is_node && member.node.value == UINT64_MAX) {
    member.node = NodeId(QUADFS_TRY(core_->NextCounter("next_node", 1)));
  }
  Operation operation;
  operation.kind = OpKind::kMember;
  operation.member = member;
  operation.now_ns = Clock::System().WallNanoseconds();
  if (auto done = Submit(operation, deadline); !done.ok()) return std::move(done).error();
  return member;
}

Result<void> HubService::SendMessage(CampusId campus, NodeId node, uint32_t kind,
                                     std::string payload) {
  wire::SideMessage message;
  message.set_kind(kind);
  message.set_campus(options_.campus.value);
  message.set_payload(std::move(payload));
  return streams_->Send(campus, node, FrameType::kMessage, message.SerializeAsString());
}

Result<void> HubService::SendUpstream(uint32_t kind, std::string payload, Deadline deadline) {
  if (primary()) return Error(ErrorCode::kInvalidArgument, "main has nobody above it");
  wire::SideMessage message;
  message.set_kind(kind);
  message.set_payload(std::move(payload));
  auto sent = CallService<wire::SessionAnswer>(*upstream_, "/v1/message", message, deadline);
  return sent.ok() ? Result<void>() : Result<void>(std::move(sent).error());
}

Hub::Status HubService::status() const {
  Status status;
  status.primary = primary();
  status.main_connected = !link_ || link_->Trusted();
  if (link_ && !status.main_connected) status.problem = link_->problem();
  status.position = SequenceNumber(core_->view_log().released());
  status.global = SequenceNumber(core_->global());
  status.pending = core_->pending_count();
  status.leases = core_->lease_count();
  status.lease_violations = core_->lease_violations();
  const auto members = view().Members();
  for (PeerStatus& peer : streams_->Peers()) {
    if (auto member = view().FindMember(peer.member.campus, peer.member.node); member.ok())
      peer.member = *member;
    status.peers.push_back(std::move(peer));
  }
  if (members.ok()) {
    for (const Member& member : *members) {
      const bool follows = member.node ? member.campus == options_.campus
                                       : primary() && member.campus != options_.campus;
      const bool known =
          std::any_of(status.peers.begin(), status.peers.end(), [&](const PeerStatus& peer) {
            return peer.member.campus == member.campus && peer.member.node == member.node;
          });
      if (follows && !known) status.peers.push_back({member, false, {}, {}});
    }
  }
  return status;
}

}  // namespace quadfs::metadata
