#include "tests/support/metadata_cluster.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

namespace quadfs::test {
namespace {

using metadata::Operation;
using metadata::OpKind;
using metadata::OpResult;

const char* const kCluster = "c1";
constexpr auto kDeadline = std::chrono::seconds(20);

transport::PeerIdentity Identity(transport::Role role, uint64_t campus, uint64_t node,
                                 const std::string& name) {
  transport::PeerIdentity identity;
  identity.cluster = kCluster;
  identity.role = role;
  identity.campus = CampusId(campus);
  identity.campus_name = "campus" + std::to_string(campus);
  identity.node = NodeId(node);
  identity.name = name;
  return identity;
}

Operation Named(OpKind kind, InodeId parent, const std::string& name) {
  Operation operation;
  operation.kind = kind;
  operation.parent = parent;
  operation.name = name;
  operation.now_ns = Clock::System().WallNanoseconds();
  return operation;
}

}  // namespace

void ListenerTwin::OnChange(const metadata::Change& change) {
  MutexLock lock(mutex_);
  if (!change.own) foreign_.push_back(change);
}
void ListenerTwin::OnReset() {
  MutexLock lock(mutex_);
  ++resets_;
}
void ListenerTwin::OnMessage(const metadata::Message& message) {
  MutexLock lock(mutex_);
  messages_.push_back(message);
}
void ListenerTwin::OnLink(bool) {}
uint64_t ListenerTwin::resets() const {
  MutexLock lock(mutex_);
  return resets_;
}
std::vector<metadata::Message> ListenerTwin::messages() const {
  MutexLock lock(mutex_);
  return messages_;
}
std::vector<metadata::Change> ListenerTwin::foreign() const {
  MutexLock lock(mutex_);
  return foreign_;
}

MetadataCluster::MetadataCluster()
    // In memory where there is such a place: a dozen data bases sync a lot while they are made.
    : folder_((std::filesystem::exists("/dev/shm") ? std::filesystem::path("/dev/shm")
                                                   : std::filesystem::temp_directory_path()) /
              ("quadfs-cluster-" + RandomHex(8))) {
  std::filesystem::create_directories(folder_);
}

MetadataCluster::~MetadataCluster() {
  for (auto& [name, slot] : nodes_) {
    if (slot.replica) KillNode(name);
  }
  for (auto it = hubs_.rbegin(); it != hubs_.rend(); ++it) {
    if (it->second.hub) KillHub(it->first);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void MetadataCluster::AddHub(uint64_t campus) {
  hubs_[campus].server = std::make_unique<TwinServer>();
  StartHub(campus);
}

void MetadataCluster::StartHub(uint64_t campus) {
  HubSlot& slot = hubs_.at(campus);
  if (campus != 1 && !slot.twin) {
    slot.twin = std::make_unique<TwinClient>(
        *hubs_.at(1).server,
        Identity(transport::Role::kHub, campus, 0, "campus" + std::to_string(campus)));
    slot.uplink = std::make_unique<FaultyClient>(*slot.twin);
  }
  metadata::Hub::Options options;
  options.directory = folder_ / ("hub" + std::to_string(campus));
  options.cluster = kCluster;
  options.campus = CampusId(campus);
  options.campus_name = "campus" + std::to_string(campus);
  options.session_ttl = std::chrono::milliseconds(2000);
  options.session_trust = std::chrono::milliseconds(1500);
  slot.listener = std::make_unique<ListenerTwin>();
  auto hub =
      metadata::Hub::Open(options, campus == 1 ? nullptr : slot.uplink.get(), *slot.listener);
  ASSERT_TRUE(hub.ok()) << hub.error().ToString();
  slot.hub = *std::move(hub);
  slot.hub->AddRoutes(*slot.server);
  auto started = slot.hub->Start();
  ASSERT_TRUE(started.ok()) << started.error().ToString();
  ASSERT_TRUE(slot.server->Start().ok());
}

void MetadataCluster::KillHub(uint64_t campus) {
  HubSlot& slot = hubs_.at(campus);
  slot.server->Stop();
  slot.hub->Stop();
  slot.server->Retire();
  slot.hub.reset();
}

void MetadataCluster::AddNode(const std::string& name, uint64_t campus) {
  NodeSlot& slot = nodes_[name];
  slot.campus = campus;
  slot.id = nodes_.size();
  const metadata::Member member{CampusId(campus), NodeId(slot.id), name, {}};
  auto enrolled = hub(1).Enroll(member, Deadline::After(kDeadline));
  ASSERT_TRUE(enrolled.ok()) << enrolled.error().ToString();
  StartNode(name);
}

void MetadataCluster::StartNode(const std::string& name) {
  NodeSlot& slot = nodes_.at(name);
  if (!slot.twin) {
    slot.twin =
        std::make_unique<TwinClient>(*hubs_.at(slot.campus).server,
                                     Identity(transport::Role::kNode, slot.campus, slot.id, name));
    slot.line = std::make_unique<FaultyClient>(*slot.twin);
  }
  slot.listener = std::make_unique<ListenerTwin>();
  auto local = metadata::LocalStore::Open(folder_ / (name + "-local"), {"journal"});
  ASSERT_TRUE(local.ok()) << local.error().ToString();
  slot.local = *std::move(local);
  metadata::NodeReplica::Options options;
  options.directory = folder_ / name;
  options.cluster = kCluster;
  options.campus = CampusId(slot.campus);
  options.node = NodeId(slot.id);
  auto replica = metadata::NodeReplica::Open(options, *slot.local, *slot.line, *slot.listener);
  ASSERT_TRUE(replica.ok()) << replica.error().ToString();
  slot.replica = *std::move(replica);
  auto started = slot.replica->Start(Deadline::After(kDeadline));
  ASSERT_TRUE(started.ok()) << started.error().ToString();
}

void MetadataCluster::KillNode(const std::string& name) {
  NodeSlot& slot = nodes_.at(name);
  slot.replica->Stop();
  slot.replica.reset();
  slot.local.reset();
}

void MetadataCluster::LoseHub(uint64_t campus) {
  std::filesystem::remove_all(folder_ / ("hub" + std::to_string(campus)));
}
void MetadataCluster::LoseNode(const std::string& name) {
  std::filesystem::remove_all(folder_ / name);
}

Result<OpResult> MetadataCluster::Create(const std::string& node_name, InodeId parent,
                                         const std::string& name, metadata::FileType type) {
  Operation operation = Named(OpKind::kCreate, parent, name);
  operation.type = type;
  operation.mode = 0755;
  operation.inode = QUADFS_TRY(node(node_name).NextInode(Deadline::After(kDeadline)));
  return node(node_name).Submit(operation, Deadline::After(kDeadline));
}
Result<OpResult> MetadataCluster::Unlink(const std::string& node_name, InodeId parent,
                                         const std::string& name) {
  return node(node_name).Submit(Named(OpKind::kUnlink, parent, name), Deadline::After(kDeadline));
}
Result<OpResult> MetadataCluster::Rename(const std::string& node_name, InodeId parent,
                                         const std::string& name, InodeId new_parent,
                                         const std::string& new_name) {
  Operation operation = Named(OpKind::kRename, parent, name);
  operation.new_parent = new_parent;
  operation.new_name = new_name;
  return node(node_name).Submit(operation, Deadline::After(kDeadline));
}
Result<OpResult> MetadataCluster::Publish(const std::string& node_name, InodeId inode,
                                          uint64_t base, uint64_t generation, uint64_t size) {
  Operation operation;
  operation.kind = OpKind::kPublish;
  operation.now_ns = operation.mtime_ns = Clock::System().WallNanoseconds();
  operation.inode = inode;
  operation.base = Generation(base);
  operation.generation = Generation(generation);
  operation.size = size;
  operation.root = ChecksumOf(std::as_bytes(std::span(&size, 1)));
  return node(node_name).Submit(operation, Deadline::After(kDeadline));
}

std::string MetadataCluster::Tree(const metadata::View& view) const {
  std::string out;
  std::function<void(InodeId, const std::string&)> walk = [&](InodeId directory,
                                                              const std::string& path) {
    const auto totals = view.SubtreeTotals(directory);
    if (totals.ok())
      out +=
          path + "/ " + std::to_string(totals->files) + " " + std::to_string(totals->bytes) + "\n";
    const auto entries = view.List(directory, "", 1'000'000, true);
    if (!entries.ok()) {
      out += path + ": " + entries.error().ToString() + "\n";
      return;
    }
    for (const auto& entry : *entries) {
      const auto& a = *entry.attributes;
      out += path + "/" + entry.name + " " + std::to_string(a.inode.value) + " " +
             std::to_string(a.size) + " " + std::to_string(a.generation.value) + " " +
             std::to_string(a.nlink) + "\n";
      if (a.type == metadata::FileType::kDirectory) walk(a.inode, path + "/" + entry.name);
    }
  };
  walk(kRootInode, "");
  return out;
}

std::string MetadataCluster::Converge() {
  const auto limit = std::chrono::steady_clock::now() + kDeadline;
  while (true) {
    const std::string want = Tree(hub(1).view());
    std::string wrong;
    for (const auto& [campus, slot] : hubs_) {
      if (!slot.hub) continue;
      if (slot.hub->status().pending != 0)
        wrong = "hub " + std::to_string(campus) + " has pending operations";
      if (Tree(slot.hub->view()) != want)
        wrong = "hub " + std::to_string(campus) + " shows another tree";
    }
    for (const auto& [name, slot] : nodes_) {
      if (slot.replica && Tree(slot.replica->view()) != want) wrong = name + " shows another tree";
    }
    if (wrong.empty() || std::chrono::steady_clock::now() > limit) return wrong;
    std::this_thread::yield();
  }
}

}  // namespace quadfs::test
