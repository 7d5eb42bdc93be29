#include <string>

#include "metadata/codec.h"
#include "metadata/execute.h"
#include "metadata/hub_service.h"
#include "metadata/wire.h"

// How a hub executes: whose lease and whose delegation it takes.

namespace quadfs::metadata {
namespace {

constexpr int kMaxTurns = 64;  ///< Of getting leases and losing them again before giving up.

Error Busy() { return {ErrorCode::kBusy, "the directory's lease is changing hands"}; }

bool IsFact(const Operation& operation) {
  return operation.kind == OpKind::kLocate || operation.kind == OpKind::kMember;
}

/// A node that changes names in a directory will soon change more of them there.
bool EarnsDelegation(const Operation& operation) {
  return operation.kind == OpKind::kCreate || operation.kind == OpKind::kLink ||
         operation.kind == OpKind::kUnlink || operation.kind == OpKind::kRename;
}

}  // namespace

Result<HubCore::Accepted> HubService::Run(Request& request, Deadline deadline) {
  return primary() ? RunAtMain(request, deadline) : RunAtBranch(request, deadline);
}

Result<void> HubService::CheckDelegations(Request& request,
                                          const std::vector<InodeId>& directories) {
  const NodeId node = Borrower(request.origin);
  if (delegations_->HeldByOther(directories, node)) return Busy();
  if (!node) return {};
  const Operation& operation = request.operation;
  const bool makes_directory =
      operation.kind == OpKind::kCreate && operation.type == FileType::kDirectory;
  if (request.shown) {
    if (makes_directory) delegations_->NoteMade(operation.inode, node);
    return {};
  }
  if (!EarnsDelegation(operation)) return {};
  std::vector<InodeId> wanted = directories;
  if (makes_directory) wanted.push_back(operation.inode);
  request.delegated = delegations_->Give(wanted, node);
  return {};
}

Result<HubCore::Accepted> HubService::Accept(Request& request, const HubCore::Gate& gate,
                                             const std::vector<InodeId>& lease) {
  auto done = core_->Accept(request.operation, request.origin, gate, lease);
  if (!done.ok() && !request.delegated.empty()) {
    delegations_->Return(request.origin.node, request.delegated);
    request.delegated.clear();
  }
  return done;
}

Result<void> HubService::Finish(uint64_t sequence) {
  if (auto finished = core_->Finish(sequence); !finished.ok()) return finished;
  if (link_) link_->Accepted();
  return {};
}

Result<HubCore::Accepted> HubService::RunAtMain(Request& request, Deadline deadline) {
  const Operation& operation = request.operation;
  const CampusId campus = request.origin.campus;
  const bool fact = IsFact(operation);
  for (int turn = 0; turn < kMaxTurns && !deadline.Passed(); ++turn) {
    std::vector<InodeId> lease;
    if (!fact) {
      const LeaseNeeds needs = QUADFS_TRY(NeedsOf(core_->store(), operation));
      QUADFS_TRY(leases_->Free(needs.directories, campus, deadline));
      QUADFS_TRY(delegations_->Free(needs.directories, Borrower(request.origin), deadline));
      if (request.grant) lease = leases_->Grantable(needs.directories, campus);
    }
    auto done = Accept(
        request,
        [&](const RowReader& state) -> Result<void> {
          if (fact) return {};
          const LeaseNeeds now = QUADFS_TRY(NeedsOf(state, operation));
          if (!QUADFS_TRY(leases_->AllFree(now.directories, campus))) return Busy();
          return CheckDelegations(request, now.directories);
        },
        lease);
    if (done.ok() || done.error().code() != ErrorCode::kBusy) return done;
  }
  return Error(ErrorCode::kTimedOut, "the lease of the directory could not be had in time");
}

Result<HubCore::Accepted> HubService::RunAtBranch(Request& request, Deadline deadline) {
  const Operation& operation = request.operation;
  link_->WaitFirstTry(deadline);
  for (int turn = 0; turn < kMaxTurns && !deadline.Passed(); ++turn) {
    if (auto answer = QUADFS_TRY(core_->FindAnswer(request.origin))) {
      if (!answer->ok()) return std::move(*answer).error();
      HubCore::Accepted accepted;
      accepted.result = *std::move(*answer);
      accepted.sequence = accepted.result.view.value;
      accepted.pending = QUADFS_TRY(core_->IsPending(request.origin));
      return accepted;
    }
    if (!link_->Trusted()) {
      return Error(ErrorCode::kUnavailable, "campus " + options_.campus_name +
                                                " has no contact with main: " + link_->problem());
    }
    const LeaseNeeds needs = QUADFS_TRY(NeedsOf(core_->store(), operation));
    link_->WaitNotHeld(needs.directories, deadline);
    QUADFS_TRY(delegations_->Free(needs.directories, Borrower(request.origin), deadline));
    // What a node did before the recall reached it is still accepted here.
    const auto ours = [&](const std::vector<InodeId>& directories) -> Result<bool> {
      return QUADFS_TRY(link_->Holds(directories)) && !link_->IsHeld(directories, request.shown);
    };
    if (needs.at_main || !QUADFS_TRY(ours(needs.directories))) {
      auto passed = PassOn(request, needs.directories, deadline);
      if (passed.ok() || passed.error().code() != ErrorCode::kBusy) return passed;
      continue;
    }
    auto done = Accept(request,
                       [&](const RowReader& state) -> Result<void> {
                         const LeaseNeeds now = QUADFS_TRY(NeedsOf(state, operation));
                         if (!QUADFS_TRY(ours(now.directories))) return Busy();
                         return CheckDelegations(request, now.directories);
                       },
                       {});
    if (done.ok() || done.error().code() != ErrorCode::kBusy) return done;
  }
  return Error(ErrorCode::kTimedOut, "the lease of the directory could not be had in time");
}

Result<HubCore::Accepted> HubService::PassOn(const Request& request,
                                             const std::vector<InodeId>& directories,
                                             Deadline deadline) {
  // Nothing new is accepted in these directories until the answer is applied, and what was accepted
  // before is at main first: so main executes on exactly what the campus shows.
  const UpstreamLink::Hold hold(*link_, directories);
  if (auto drained = link_->Drain(deadline); !drained.ok()) return std::move(drained).error();
  const OpOrigin& origin = request.origin;
  wire::OpRequest message;
  message.set_node_op(origin.node_op);
  message.set_answered_below(origin.answered_below);
  message.set_operation(Encode(request.operation));
  message.set_campus(origin.campus.value);
  message.set_node(origin.node.value);
  message.set_grant(true);
  const wire::OpAnswer answer =
      QUADFS_TRY(CallService<wire::OpAnswer>(*upstream_, "/v1/execute", message, deadline));
  HubCore::Accepted accepted;
  accepted.result = QUADFS_TRY(DecodeOpResult(answer.result()));
  if (auto applied = link_->WaitApplied(answer.sequence(), deadline); !applied.ok()) {
    return std::move(applied).error();
  }
  accepted.result.view = SequenceNumber(core_->view_log().released());
  return accepted;
}

Result<HubCore::Accepted> HubService::RunShown(const Operation& operation, const OpOrigin& origin,
                                               Deadline deadline) {
  Request request{operation, origin, false, true, {}};
  auto done = Run(request, deadline);
  if (done.ok() || operation.kind != OpKind::kCreate) return done;
  const ErrorCode why = done.error().code();
  const bool name_taken = why == ErrorCode::kExists;
  const bool directory_gone = why == ErrorCode::kNotFound || why == ErrorCode::kNotDirectory;
  if (!name_taken && !directory_gone) return done;
  // Somebody else was given the directory after this node had been silent for long.
  Operation saved = operation;
  const std::string mark =
      ".conflict-" + options_.campus_name + "-" + std::to_string(origin.node_op);
  saved.name = saved.name.substr(0, kMaxNameBytes - mark.size()) + mark;
  if (directory_gone) saved.parent = kRootInode;
  for (const Operation* before :
       {&operation,
        static_cast<const Operation*>(&saved)}) {  // Was it done already, and forgotten?
    const auto there = view().Lookup(before->parent, before->name);
    if (!there.ok() || there->inode != operation.inode) continue;
    HubCore::Accepted accepted;
    accepted.result.attributes = *there;
    accepted.result.view = SequenceNumber(core_->view_log().released());
    return accepted;
  }
  OpOrigin again = origin;
  again.node = NodeId();  // The number of the operation has its answer: it was refused.
  Request second{saved, again, false, true, {}};
  return Run(second, deadline);
}

}  // namespace quadfs::metadata
