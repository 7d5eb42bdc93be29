#pragma once

#include <map>
#include <memory>
#include <thread>

#include "metadata/delegation_table.h"
#include "metadata/hub.h"
#include "metadata/hub_core.h"
#include "metadata/lease_table.h"
#include "metadata/lock_table.h"
#include "metadata/proto/wire.pb.h"
#include "metadata/stream_registry.h"
#include "metadata/upstream_link.h"

namespace quadfs::metadata {

/// The Hub: its routes and threads, joined around HubCore.
class HubService final : public Hub {
 public:
  HubService(Options options, transport::Client* upstream, ChangeListener& listener)
      : options_(std::move(options)), upstream_(upstream), changes_(listener) {}
  ~HubService() override { Stop(); }
  Result<void> Init();

  void AddRoutes(transport::Server& server) override;
  Result<void> Start() override;
  void Stop() override;
  const View& view() const override { return core_->view(); }
  Result<OpResult> Submit(const Operation& operation, Deadline deadline) override;
  Result<Member> Enroll(const Member& wanted, Deadline deadline) override;
  Result<void> SendMessage(CampusId campus, NodeId node, uint32_t kind,
                           std::string payload) override;
  Result<void> SendUpstream(uint32_t kind, std::string payload, Deadline deadline) override;
  Status status() const override;

 private:
  bool primary() const { return upstream_ == nullptr; }
  /// How a request wants to be executed, and what else its answer brings.
  struct Request {
    const Operation& operation;
    OpOrigin origin;
    bool grant = false;  ///< At main: a branch also wants the leases.
    bool shown = false;  ///< A node did it by itself already.
    std::vector<Delegation> delegated;
  };
  /// Not on the disk before HubCore::Finish.
  Result<HubCore::Accepted> Run(Request& request, Deadline deadline);
  Result<HubCore::Accepted> RunAtMain(Request& request, Deadline deadline);
  Result<HubCore::Accepted> RunAtBranch(Request& request, Deadline deadline);
  Result<HubCore::Accepted> PassOn(const Request& request, const std::vector<InodeId>& directories,
                                   Deadline deadline);
  /// Refuses what another node has by delegation; gives the directories to the one who asks.
  Result<void> CheckDelegations(Request& request, const std::vector<InodeId>& directories);
  /// Executes what the gate lets through, with the delegations it gave.
  Result<HubCore::Accepted> Accept(Request& request, const HubCore::Gate& gate,
                                   const std::vector<InodeId>& lease);
  /// Of this campus: the node that asks; else none.
  NodeId Borrower(const OpOrigin& origin) const {
    return origin.campus == options_.campus ? origin.node : NodeId();
  }
  /// Makes entries durable, shows them, and has main told. Errors: kIo.
  Result<void> Finish(uint64_t sequence);
  /// What a node did by itself and cannot be so any more is done in another place or under another
  /// name, if that saves a file.
  Result<HubCore::Accepted> RunShown(const Operation& operation, const OpOrigin& origin,
                                     Deadline deadline);

  void OnOps(transport::Request& request, transport::Response& response);
  void OnBatch(transport::Request& request, transport::Response& response);
  void OnLog(transport::Request& request, transport::Response& response);
  void OnSnapshot(transport::Request& request, transport::Response& response);
  void OnMerge(transport::Request& request, transport::Response& response);
  void OnLease(transport::Request& request, transport::Response& response);
  void OnSession(transport::Request& request, transport::Response& response);
  void OnBarrier(transport::Request& request, transport::Response& response);
  void OnInodes(transport::Request& request, transport::Response& response);
  void OnLock(transport::Request& request, transport::Response& response);
  void OnMessagePost(transport::Request& request, transport::Response& response);
  void OnStatus(transport::Response& response);

  Result<wire::LockAnswer> LockHere(const wire::Lock& lock);
  std::string Heartbeat() const;
  void Tend(std::stop_token stop);
  /// Frees the locks of this campus's nodes whose stream has been down for the session's time.
  void DropLocksOfTheLost(Clock::TimePoint now, std::map<NodeId, Clock::TimePoint>& lost);
  bool FromOwnCampus(transport::Request& request, transport::Response& response) const;

  const Options options_;
  transport::Client* const upstream_;
  ChangeQueue changes_;
  std::unique_ptr<HubCore> core_;
  std::unique_ptr<StreamRegistry> streams_;  ///< To nodes; at main to hubs as well.
  std::unique_ptr<LeaseTable> leases_;       ///< At main.
  std::unique_ptr<UpstreamLink> link_;       ///< At a branch.
  std::unique_ptr<DelegationTable> delegations_;
  LockTable locks_;  ///< At main.

  Mutex inode_mutex_;
  uint64_t next_inode_ QUADFS_GUARDED_BY(inode_mutex_) = 0;
  uint64_t inode_end_ QUADFS_GUARDED_BY(inode_mutex_) = 0;
  Mutex tend_mutex_;
  CondVar tend_wake_;
  bool stopping_ QUADFS_GUARDED_BY(tend_mutex_) = false;
  std::jthread tender_;
};

}  // namespace quadfs::metadata
