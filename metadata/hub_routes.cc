#include <algorithm>
#include <nlohmann/json.hpp>

#include "metadata/codec.h"
#include "metadata/execute.h"
#include "metadata/hub_service.h"
#include "metadata/snapshot_stream.h"

namespace quadfs::metadata {
namespace {

constexpr uint64_t kInodeBlock = 4096;
constexpr uint64_t kInodeReserve = 65536;
constexpr uint32_t kMaxLockWaitMs = 5000;

/// Nothing was decided about the operation.
bool IsOutage(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimedOut:
    case ErrorCode::kBusy:
    case ErrorCode::kCancelled:
    case ErrorCode::kIo:
    case ErrorCode::kNoSpace:
    case ErrorCode::kCorruption: return true;
    default: return false;
  }
}

}  // namespace

void HubService::AddRoutes(transport::Server& server) {
  using transport::Role;
  const std::vector<Role> nodes{Role::kNode};
  const std::vector<Role> hubs{Role::kHub};
  const std::vector<Role> both{Role::kNode, Role::kHub};
  const auto route = [&](const char* method, const char* path, const std::vector<Role>& roles,
                         void (HubService::*handler)(transport::Request&, transport::Response&)) {
    server.Route(method, path, roles,
                 [this, handler](transport::Request& request, transport::Response& response) {
                   if (leases_ && request.peer().role == Role::kHub)
                     leases_->Heard(request.peer().campus);
                   if (request.peer().role == Role::kNode) {
                     if (!FromOwnCampus(request, response)) return;
                     delegations_->Heard(request.peer().node);
                   }
                   (this->*handler)(request, response);
                 });
  };
  route("POST", "/v1/ops", nodes, &HubService::OnOps);
  route("POST", "/v1/batch", nodes, &HubService::OnBatch);
  route("GET", "/v1/log", primary() ? both : nodes, &HubService::OnLog);
  route("GET", "/v1/snapshot", primary() ? both : nodes, &HubService::OnSnapshot);
  route("POST", "/v1/barrier", both, &HubService::OnBarrier);
  route("POST", "/v1/inodes", nodes, &HubService::OnInodes);
  route("POST", "/v1/lock", both, &HubService::OnLock);
  route("POST", "/v1/message", both, &HubService::OnMessagePost);
  server.Route("GET", "/v1/status", both,
               [this](transport::Request&, transport::Response& response) { OnStatus(response); });
  // Only main merges; a branch hub that is asked says so.
  route("POST", "/v1/merge", hubs, &HubService::OnMerge);
  route("POST", "/v1/execute", hubs, &HubService::OnOps);
  route("POST", "/v1/lease", hubs, &HubService::OnLease);
  route("POST", "/v1/session", hubs, &HubService::OnSession);
}

bool HubService::FromOwnCampus(transport::Request& request, transport::Response& response) const {
  if (request.peer().campus == options_.campus) return true;
  (void)response.Fail(
      Error(ErrorCode::kUnauthenticated, "node " + request.peer().name + " belongs to campus " +
                                             request.peer().campus_name + ", this is the hub of " +
                                             options_.campus_name));
  return false;
}

void HubService::OnOps(transport::Request& request, transport::Response& response) {
  wire::OpRequest asked;
  if (!ReadMessage(request, response, asked)) return;
  const bool from_hub = request.peer().role == transport::Role::kHub;
  if (from_hub && !primary())
    return (void)response.Fail(Error(ErrorCode::kStale, "this hub is not main's"));
  auto operation = DecodeOperation(asked.operation());
  if (!operation.ok()) return (void)response.Fail(operation.error());
  const bool fact = operation->kind == OpKind::kLocate || operation->kind == OpKind::kMember;
  if (fact && !from_hub) {
    return (void)response.Fail(Error(ErrorCode::kUnauthenticated, "a node states no facts"));
  }
  OpOrigin origin;
  origin.campus = request.peer().campus;
  origin.node = from_hub ? NodeId(asked.node()) : request.peer().node;
  origin.node_op = asked.node_op();
  origin.answered_below = asked.answered_below();
  if (operation->kind == OpKind::kPublish) {
    operation->location = {origin.campus, origin.node, operation->generation, false};
  }
  Request asking{*operation, origin, from_hub && asked.grant(), false, {}};
  auto done = Run(asking, request.deadline());
  if (!done.ok()) return (void)response.Fail(done.error());
  if (auto finished = Finish(done->sequence); !finished.ok())
    return (void)response.Fail(finished.error());
  wire::OpAnswer answer;
  answer.set_sequence(from_hub ? core_->global() : done->result.view.value);
  answer.set_result(Encode(done->result));
  answer.set_pending(!from_hub && done->pending);
  for (const Delegation& given : asking.delegated) {
    wire::Delegation& told = *answer.add_delegated();
    told.set_directory(given.directory.value);
    told.set_number(given.number);
    told.set_trust_ms(static_cast<uint32_t>((options_.session_ttl * 2 / 5).count()));
  }
  ReplyMessage(response, Result<wire::OpAnswer>(std::move(answer)));
}

void HubService::OnBatch(transport::Request& request, transport::Response& response) {
  wire::OpBatch batch;
  if (!ReadMessage(request, response, batch)) return;
  if (batch.operations_size() > static_cast<int>(kMaxBatchOperations))
    return (void)response.Fail(Error(ErrorCode::kInvalidArgument, "too many operations at once"));
  const NodeId node = request.peer().node;
  wire::OpBatchAnswer answer;
  uint64_t sequence = 0;
  for (const wire::OpRequest& one : batch.operations()) {
    auto operation = DecodeOperation(one.operation());
    if (!operation.ok()) return (void)response.Fail(operation.error());
    if (operation->kind == OpKind::kLocate || operation->kind == OpKind::kMember)
      return (void)response.Fail(Error(ErrorCode::kUnauthenticated, "a node states no facts"));
    const OpOrigin origin{options_.campus, node, one.node_op(), batch.answered_below()};
    if (operation->kind == OpKind::kPublish)
      operation->location = {origin.campus, origin.node, operation->generation, false};
    auto done = RunShown(*operation, origin, request.deadline());
    if (!done.ok() && IsOutage(done.error())) break;  // The node sends the rest again.
    wire::OpOutcome& outcome = *answer.add_outcomes();
    if (!done.ok()) {
      outcome.set_code(static_cast<uint32_t>(done.error().code()));
      outcome.set_message(done.error().message());
      continue;
    }
    sequence = std::max(sequence, done->sequence);
    outcome.set_view(done->result.view.value);
    outcome.set_pending(done->pending);
  }
  if (auto finished = Finish(sequence); !finished.ok())
    return (void)response.Fail(finished.error());
  if (answer.outcomes_size() == batch.operations_size()) {
    std::vector<Delegation> returned;
    for (const wire::Delegation& one : batch.returned())
      returned.push_back({InodeId(one.directory()), one.number()});
    delegations_->Return(node, returned);
    if (batch.returned_all()) delegations_->ReturnAll(node);
    if (batch.flushed() != 0) delegations_->Flushed(node, batch.flushed());
  }
  ReplyMessage(response, Result<wire::OpBatchAnswer>(std::move(answer)));
}

void HubService::OnLog(transport::Request& request, transport::Response& response) {
  streams_->Serve(request, response, request.peer().campus,
                  request.peer().role == transport::Role::kHub ? NodeId() : request.peer().node);
}

void HubService::OnSnapshot(transport::Request&, transport::Response& response) {
  ServeSnapshot(*core_, options_.cluster, response);
}

void HubService::OnMerge(transport::Request& request, transport::Response& response) {
  if (!primary()) return (void)response.Fail(Error(ErrorCode::kStale, "this hub is not main's"));
  wire::MergeRequest asked;
  if (!ReadMessage(request, response, asked)) return;
  std::vector<LogEntry> entries;
  for (const std::string& bytes : asked.entries()) {
    auto entry = DecodeLogEntry(bytes);
    if (!entry.ok()) return (void)response.Fail(entry.error());
    if (!entry->operation)
      return (void)response.Fail(
          Error(ErrorCode::kInvalidArgument, "an entry without its operation"));
    for (const RowChange& row : entry->rows) {
      const auto family = FamilyOf(row.key);
      if (!family || !IsStateFamily(*family) || *family == Family::kTotal ||
          *family == Family::kMember) {
        return (void)response.Fail(
            Error(ErrorCode::kUnauthenticated, "an entry changes a row that is not a campus's"));
      }
    }
    // Usually the campus has the lease; an old one may have been taken, and lent on here.
    if (delegations_->size() > 0) {
      const auto needs = NeedsOf(core_->store(), *entry->operation);
      if (!needs.ok()) return (void)response.Fail(needs.error());
      const auto freed = delegations_->Free(needs->directories, NodeId(), request.deadline());
      if (!freed.ok()) return (void)response.Fail(freed.error());
    }
    entries.push_back(*std::move(entry));
  }
  const auto merged = core_->Merge(request.peer().campus, entries);
  if (!merged.ok()) return (void)response.Fail(merged.error());
  wire::MergeAnswer answer;
  answer.set_merged(*merged);
  ReplyMessage(response, Result<wire::MergeAnswer>(std::move(answer)));
}

void HubService::OnLease(transport::Request& request, transport::Response& response) {
  if (!primary()) return (void)response.Fail(Error(ErrorCode::kStale, "this hub is not main's"));
  wire::DirectoryList list;
  if (!ReadMessage(request, response, list)) return;
  std::vector<InodeId> directories;
  for (const uint64_t directory : list.directories()) directories.emplace_back(directory);
  const auto returned = leases_->Return(request.peer().campus, directories);
  if (!returned.ok()) return (void)response.Fail(returned.error());
  ReplyMessage(response, Result<wire::MergeAnswer>(wire::MergeAnswer()));
}

void HubService::OnSession(transport::Request& request, transport::Response& response) {
  if (!primary()) return (void)response.Fail(Error(ErrorCode::kStale, "this hub is not main's"));
  wire::SessionRequest asked;
  if (!ReadMessage(request, response, asked)) return;
  wire::SessionAnswer answer;
  answer.set_global(core_->global());
  const auto merged = core_->Merged(request.peer().campus);
  if (!merged.ok()) return (void)response.Fail(merged.error());
  answer.set_merged(*merged);
  ReplyMessage(response, Result<wire::SessionAnswer>(std::move(answer)));
}

void HubService::OnBarrier(transport::Request& request, transport::Response& response) {
  wire::BarrierRequest asked;
  if (!ReadMessage(request, response, asked)) return;
  wire::BarrierAnswer answer;
  if (request.peer().role == transport::Role::kNode) {
    std::vector<InodeId> directories;
    for (const uint64_t directory : asked.directories()) directories.emplace_back(directory);
    const auto flushed = delegations_->Flush(directories, request.peer().node, request.deadline());
    if (!flushed.ok()) return (void)response.Fail(flushed.error());
  }
  if (asked.through_main() && !primary()) {
    auto from_main =
        CallService<wire::BarrierAnswer>(*upstream_, "/v1/barrier", asked, request.deadline());
    if (!from_main.ok()) return (void)response.Fail(from_main.error());
    if (auto applied = link_->WaitApplied(from_main->sequence(), request.deadline());
        !applied.ok()) {
      return (void)response.Fail(applied.error());
    }
  }
  answer.set_sequence(core_->view_log().released());
  ReplyMessage(response, Result<wire::BarrierAnswer>(std::move(answer)));
}

void HubService::OnInodes(transport::Request&, transport::Response& response) {
  wire::InodeBlock block;
  {
    MutexLock lock(inode_mutex_);
    if (next_inode_ + kInodeBlock > inode_end_) {
      const auto reserved = core_->ReserveInodes(kInodeReserve);
      if (!reserved.ok()) return (void)response.Fail(reserved.error());
      next_inode_ = *reserved;
      inode_end_ = *reserved + kInodeReserve;
    }
    block.set_first(next_inode_);
    block.set_count(kInodeBlock);
    next_inode_ += kInodeBlock;
  }
  ReplyMessage(response, Result<wire::InodeBlock>(std::move(block)));
}

Result<wire::LockAnswer> HubService::LockHere(const wire::Lock& lock) {
  wire::LockAnswer answer;
  if (lock.verb() == kLockVerbReleaseNode) {
    locks_.ReleaseNode(CampusId(lock.campus()), NodeId(lock.node()));
    return answer;
  }
  const LockOwner owner{CampusId(lock.campus()), NodeId(lock.node()), lock.owner()};
  LockRequest request;
  request.inode = InodeId(lock.inode());
  if (lock.kind() < 1 || lock.kind() > 2 || lock.type() < 1 || lock.type() > 3 ||
      lock.last_byte() < lock.first_byte()) {
    return Error(ErrorCode::kInvalidArgument, "no such lock");
  }
  request.kind = static_cast<LockKind>(lock.kind());
  request.type = static_cast<LockType>(lock.type());
  request.first_byte = lock.first_byte();
  request.last_byte = lock.last_byte();
  request.pid = lock.pid();
  request.wait = std::chrono::milliseconds(std::min(lock.wait_ms(), kMaxLockWaitMs));
  if (lock.verb() == kLockVerbLock) {
    if (auto locked = locks_.Lock(owner, request); !locked.ok()) return std::move(locked).error();
  } else if (lock.verb() == kLockVerbTest) {
    if (const auto holder = locks_.Test(owner, request)) {
      answer.set_held(true);
      answer.set_type(static_cast<uint32_t>(holder->type));
      answer.set_first_byte(holder->first_byte);
      answer.set_last_byte(holder->last_byte);
      answer.set_pid(holder->pid);
    }
  } else if (lock.verb() == kLockVerbReleaseOwner) {
    locks_.Release(request.inode, owner);
  } else {
    return Error(ErrorCode::kInvalidArgument, "no such lock verb");
  }
  return answer;
}

void HubService::OnLock(transport::Request& request, transport::Response& response) {
  wire::Lock lock;
  if (!ReadMessage(request, response, lock)) return;
  lock.set_campus(request.peer().campus.value);
  if (request.peer().role == transport::Role::kNode) lock.set_node(request.peer().node.value);
  if (primary()) return ReplyMessage(response, LockHere(lock));
  ReplyMessage(response,
               CallService<wire::LockAnswer>(*upstream_, "/v1/lock", lock, request.deadline()));
}

void HubService::OnMessagePost(transport::Request& request, transport::Response& response) {
  wire::SideMessage side;
  if (!ReadMessage(request, response, side)) return;
  const Message message{side.kind(), request.peer().campus, request.peer().node, side.payload()};
  changes_.Post([message](ChangeListener& listener) { listener.OnMessage(message); });
  ReplyMessage(response, Result<wire::SessionAnswer>(wire::SessionAnswer()));
}

void HubService::OnStatus(transport::Response& response) {
  const Status now = status();
  nlohmann::json out{{"campus", options_.campus_name},
                     {"primary", now.primary},
                     {"main_connected", now.main_connected},
                     {"position", now.position.value},
                     {"global", now.global.value},
                     {"pending", now.pending},
                     {"leases", now.leases}};
  for (const PeerStatus& peer : now.peers) {
    out["peers"].push_back({{"name", peer.member.name},
                            {"connected", peer.connected},
                            {"position", peer.position.value}});
  }
  (void)response.Reply(200, "application/json", out.dump());
}

}  // namespace quadfs::metadata
