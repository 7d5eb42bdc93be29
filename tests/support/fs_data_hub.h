#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "metadata/hub.h"
#include "metadata/node_replica.h"
#include "tests/support/fs_data_namespace.h"

namespace quadfs::test {

/// A Hub over a TestNamespace: kLocate is executed, messages go to whoever the test registered.
class TestHub final : public metadata::Hub {
 public:
  using Deliver = std::function<void(const metadata::Message&)>;
  TestHub(CampusId campus, TestNamespace& names) : campus_(campus), names_(names) {}

  /// A client's stream is up; `node` 0: a campus's hub.
  void Connect(CampusId campus, NodeId node, Deliver deliver) {
    MutexLock lock(mutex_);
    peers_[{campus, node}] = std::move(deliver);
  }
  void Disconnect(CampusId campus, NodeId node) {
    MutexLock lock(mutex_);
    peers_.erase({campus, node});
  }
  void SetUpstream(Deliver deliver) {
    MutexLock lock(mutex_);
    upstream_ = std::move(deliver);
  }
  /// kLocate fails with kUnavailable from now on, as when main is cut off.
  void SetCut(bool cut) {
    MutexLock lock(mutex_);
    cut_ = cut;
  }
  int located() const {
    MutexLock lock(mutex_);
    return located_;
  }

  void AddRoutes(transport::Server&) override {}
  Result<void> Start() override { return {}; }
  void Stop() override {}
  const metadata::View& view() const override { return names_; }
  Result<metadata::OpResult> Submit(const metadata::Operation& operation, Deadline) override {
    if (operation.kind != metadata::OpKind::kLocate) {
      return Error(ErrorCode::kNotSupported, "only locations");
    }
    {
      MutexLock lock(mutex_);
      if (cut_) return Error(ErrorCode::kUnavailable, "main is cut off");
      ++located_;
    }
    names_.Locate(operation.inode, operation.location);
    return metadata::OpResult();
  }
  Result<metadata::Member> Enroll(const metadata::Member&, Deadline) override {
    return Error(ErrorCode::kNotSupported, "no enrolment");
  }
  Result<void> SendMessage(CampusId campus, NodeId node, uint32_t kind,
                           std::string payload) override {
    Deliver deliver;
    {
      MutexLock lock(mutex_);
      const auto found = peers_.find({campus, node});
      if (found == peers_.end()) return Error(ErrorCode::kUnavailable, "its stream is down");
      deliver = found->second;
    }
    deliver({kind, campus_, NodeId(0), std::move(payload)});
    return {};
  }
  Result<void> SendUpstream(uint32_t kind, std::string payload, Deadline) override {
    Deliver deliver;
    {
      MutexLock lock(mutex_);
      if (!upstream_ || cut_) return Error(ErrorCode::kUnavailable, "main is cut off");
      deliver = upstream_;
    }
    deliver({kind, campus_, NodeId(0), std::move(payload)});
    return {};
  }
  Status status() const override {
    MutexLock lock(mutex_);
    Status status;
    status.primary = campus_ == kMainCampus;
    status.main_connected = !cut_;
    for (const auto& [peer, deliver] : peers_) {
      metadata::Hub::PeerStatus one;
      one.member.campus = peer.first;
      one.member.node = peer.second;
      one.connected = true;
      status.peers.push_back(one);
    }
    return status;
  }

 private:
  const CampusId campus_;
  TestNamespace& names_;
  mutable Mutex mutex_;
  std::map<std::pair<CampusId, NodeId>, Deliver> peers_ QUADFS_GUARDED_BY(mutex_);
  Deliver upstream_ QUADFS_GUARDED_BY(mutex_);
  bool cut_ QUADFS_GUARDED_BY(mutex_) = false;
  int located_ QUADFS_GUARDED_BY(mutex_) = 0;
};

/// A NodeReplica over a TestNamespace.
class TestReplica final : public metadata::NodeReplica {
 public:
  using Deliver = std::function<void(const metadata::Message&)>;
  TestReplica(CampusId campus, NodeId node, TestNamespace& names)
      : campus_(campus), node_(node), names_(names) {}
  void SetHub(Deliver deliver) { hub_ = std::move(deliver); }

  Result<void> Start(Deadline) override { return {}; }
  void Stop() override {}
  const metadata::View& view() const override { return names_; }
  Result<metadata::OpResult> Submit(const metadata::Operation&, Deadline) override {
    return Unused();
  }
  Result<void> Barrier(bool, Deadline, InodeId) override { return {}; }
  Result<void> Flush(Deadline, bool) override { return {}; }
  Result<InodeId> NextInode(Deadline) override { return Unused(); }
  Result<void> Lock(const metadata::LockRequest&, Deadline) override { return Unused(); }
  Result<std::optional<metadata::LockHolder>> TestLock(const metadata::LockRequest&,
                                                       Deadline) override {
    return Unused();
  }
  Result<void> ReleaseLocks(InodeId, uint64_t, Deadline) override { return Unused(); }
  Result<void> SendMessage(uint32_t kind, std::string payload, Deadline) override {
    if (!hub_) return Error(ErrorCode::kUnavailable, "no hub");
    hub_({kind, campus_, node_, std::move(payload)});
    return {};
  }
  Result<void> WaitCommitted(Deadline) override { return {}; }
  Status status() const override {
    Status status;
    status.connected = static_cast<bool>(hub_);
    return status;
  }

 private:
  static Error Unused() { return {ErrorCode::kNotSupported, "the test replica has no such call"}; }
  const CampusId campus_;
  const NodeId node_;
  TestNamespace& names_;
  Deliver hub_;
};

}  // namespace quadfs::test
