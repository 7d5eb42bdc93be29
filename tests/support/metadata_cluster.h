#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "metadata/hub.h"
#include "metadata/local_store.h"
#include "metadata/node_replica.h"
#include "tests/support/transport_twins.h"
#include "transport/base/random.h"

namespace quadfs::test {

/// Notes what a replica tells its listener. Threads: every method may be called concurrently.
class ListenerTwin final : public metadata::ChangeListener {
 public:
  void OnChange(const metadata::Change& change) override;
  void OnReset() override;
  void OnMessage(const metadata::Message& message) override;
  void OnLink(bool connected) override;
  uint64_t resets() const;
  std::vector<metadata::Message> messages() const;
  /// Changes that were not the node's own.
  std::vector<metadata::Change> foreign() const;

 private:
  mutable Mutex mutex_;
  uint64_t resets_ = 0;
  std::vector<metadata::Message> messages_;
  std::vector<metadata::Change> foreign_;
};

/// Hubs and nodes of a cluster in this process, joined by transport twins; each can be killed and
/// started again on what it left on disk, each line can be cut.
class MetadataCluster {
 public:
  MetadataCluster();
  ~MetadataCluster();

  /// Campus 1 is main. Fails the test if it cannot start.
  void AddHub(uint64_t campus);
  void AddNode(const std::string& name, uint64_t campus);
  /// Drops the object as a killed process would, and opens what it left.
  void KillHub(uint64_t campus);
  void StartHub(uint64_t campus);
  void KillNode(const std::string& name);
  void StartNode(const std::string& name);
  /// Deletes the files of a killed hub or node.
  void LoseHub(uint64_t campus);
  void LoseNode(const std::string& name);

  metadata::Hub& hub(uint64_t campus) { return *hubs_.at(campus).hub; }
  metadata::NodeReplica& node(const std::string& name) { return *nodes_.at(name).replica; }
  ListenerTwin& listener(const std::string& name) { return *nodes_.at(name).listener; }
  ListenerTwin& hub_listener(uint64_t campus) { return *hubs_.at(campus).listener; }
  FaultyClient& uplink(uint64_t campus) { return *hubs_.at(campus).uplink; }
  FaultyClient& line(const std::string& name) { return *nodes_.at(name).line; }

  // Operations, with a deadline of 20 s.
  Result<metadata::OpResult> Create(const std::string& node, InodeId parent,
                                    const std::string& name,
                                    metadata::FileType type = metadata::FileType::kRegular);
  Result<metadata::OpResult> Unlink(const std::string& node, InodeId parent,
                                    const std::string& name);
  Result<metadata::OpResult> Rename(const std::string& node, InodeId parent,
                                    const std::string& name, InodeId new_parent,
                                    const std::string& new_name);
  Result<metadata::OpResult> Publish(const std::string& node, InodeId inode, uint64_t base,
                                     uint64_t generation, uint64_t size);
  /// Waits until every node and hub shows the same tree; empty, or what differs.
  std::string Converge();

 private:
  struct HubSlot {
    std::unique_ptr<TwinServer> server;
    std::unique_ptr<TwinClient> twin;
    std::unique_ptr<FaultyClient> uplink;
    std::unique_ptr<ListenerTwin> listener;
    std::unique_ptr<metadata::Hub> hub;
  };
  struct NodeSlot {
    uint64_t campus = 0;
    uint64_t id = 0;
    std::unique_ptr<TwinClient> twin;
    std::unique_ptr<FaultyClient> line;
    std::unique_ptr<ListenerTwin> listener;
    std::unique_ptr<metadata::LocalStore> local;
    std::unique_ptr<metadata::NodeReplica> replica;
  };

  std::string Tree(const metadata::View& view) const;

  const std::filesystem::path folder_;
  std::map<uint64_t, HubSlot> hubs_;
  std::map<std::string, NodeSlot> nodes_;
};

}  // namespace quadfs::test
