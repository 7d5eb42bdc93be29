#pragma once

#include <unistd.h>

#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "cache/block_cache.h"
#include "cache/tree_store.h"
#include "fs/data/node_data.h"
#include "fs/hub/hub_data.h"
#include "tests/support/fs_data_content.h"
#include "tests/support/fs_data_hub.h"
#include "tests/support/fs_data_namespace.h"
#include "tests/support/fs_data_store.h"
#include "tests/support/matchers.h"
#include "tests/support/transport_twins.h"
#include "transport/base/random.h"

namespace quadfs::test {

inline transport::PeerIdentity PeerOf(CampusId campus, NodeId node) {
  transport::PeerIdentity peer;
  peer.cluster = "c1";
  peer.role = node ? transport::Role::kNode : transport::Role::kHub;
  peer.campus = campus;
  peer.campus_name = "campus" + std::to_string(campus.value);
  peer.node = node;
  peer.name = node ? "node" + std::to_string(node.value) : peer.campus_name;
  return peer;
}

inline Deadline InTime() { return Deadline::After(std::chrono::seconds(20)); }

/// The server of a hub that comes and goes. Kill waits for the calls that are inside, as a real
/// server does.
class LiveServer {
 public:
  void Open(std::shared_ptr<TwinServer> server) {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    server_ = std::move(server);
  }
  /// New calls are refused from the moment `stop` runs; returns when none is inside.
  void Close(const std::function<void()>& stop) {
    if (server_) server_->Stop();
    stop();
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    server_.reset();
  }
  template <typename Call>
  auto With(const transport::PeerIdentity& peer, const Call& call)
      -> decltype(call(std::declval<TwinClient&>())) {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    if (!server_) return Error(ErrorCode::kUnavailable, "twin: the hub is down");
    TwinClient client(*server_, peer);
    return call(client);
  }

 private:
  std::shared_mutex mutex_;
  std::shared_ptr<TwinServer> server_;
};

/// A client of it.
class LiveClient final : public transport::Client {
 public:
  LiveClient(LiveServer& server, transport::PeerIdentity peer)
      : server_(server), peer_(std::move(peer)) {}
  Result<transport::Answer> Call(const std::string& method, const std::string& target,
                                 std::string_view body, Deadline deadline,
                                 const Headers& headers) override {
    return server_.With(peer_, [&](TwinClient& client) {
      return client.Call(method, target, body, deadline, headers);
    });
  }
  Result<transport::Answer> Download(const std::string& method, const std::string& target,
                                     std::string_view body, Deadline deadline, const Sink& sink,
                                     const Headers& headers) override {
    return server_.With(peer_, [&](TwinClient& client) {
      return client.Download(method, target, body, deadline, sink, headers);
    });
  }
  Result<transport::Answer> Upload(const std::string& target, uint64_t body_bytes,
                                   const Source& source, Deadline deadline,
                                   const Headers& headers) override {
    return server_.With(peer_, [&](TwinClient& client) {
      return client.Upload(target, body_bytes, source, deadline, headers);
    });
  }
  Result<void> Follow(const std::string&, std::chrono::milliseconds, std::stop_token, const Sink&,
                      const Headers&) override {
    return Error(ErrorCode::kNotSupported, "the data plane follows nothing");
  }
  void Reset() override {}

 private:
  LiveServer& server_;
  const transport::PeerIdentity peer_;
};

/// A campus's hub with its data plane on real disks, a TestNamespace for metadata, and a server
/// twin. Kill drops it as a crash would; Start opens what it left.
class TestCampusHub {
 public:
  /// `upstream`: how main is reached; none: by a twin.
  TestCampusHub(uint64_t campus, TestNamespace& names, TestCampusHub* main = nullptr,
                transport::Client* upstream = nullptr)
      : campus_(campus), hub(CampusId(campus), names), main_(main) {
    if (main_ != nullptr) {
      upstream_ = std::make_unique<LiveClient>(main_->live, PeerOf(campus_, NodeId(0)));
      uplink = std::make_unique<FaultyClient>(upstream != nullptr ? *upstream : *upstream_);
      hub.SetUpstream([this](const metadata::Message& message) { main_->Receive(message); });
    }
    Start();
  }
  ~TestCampusHub() { Kill(); }

  void Start() {
    cache::BlockCache::Options options;
    options.directory = directory.path() + "/cache";
    options.capacity_bytes = cache_bytes;
    options.free_floor_bytes = 0;
    std::filesystem::create_directories(options.directory);
    std::filesystem::create_directories(store_path());
    auto opened_cache = cache::BlockCache::Open(options, cache_index_);
    ASSERT_THAT(opened_cache, IsOk());
    cache = std::move(*opened_cache);
    auto opened_store = cache::TreeStore::Open(store_path(), store_index_);
    ASSERT_THAT(opened_store, IsOk());
    store = std::move(*opened_store);
    fs::HubData::Options data_options;
    data_options.campus = campus_;
    data_options.primary = main_ == nullptr;
    data_options.limit_bytes_per_second = 0;
    auto made = fs::HubData::Create(data_options, local, *cache, *store, hub, uplink.get());
    ASSERT_THAT(made, IsOk());
    data = std::move(*made);
    const auto server = std::make_shared<TwinServer>();
    data->AddRoutes(*server);
    ASSERT_THAT(data->Start(), IsOk());
    live.Open(server);
    if (main_ != nullptr) {
      main_->hub.Connect(campus_, NodeId(0),
                         [this](const metadata::Message& message) { Receive(message); });
    }
  }
  void Kill() {
    if (main_ != nullptr) main_->hub.Disconnect(campus_, NodeId(0));
    live.Close([&] {
      if (data) data->Stop();
    });
    data.reset();
    cache.reset();
    store.reset();
  }
  void Receive(const metadata::Message& message) {
    if (data) data->OnMessage(message);
  }
  CampusId campus() const { return campus_; }
  std::string store_path() const { return directory.path() + "/store"; }
  std::string PathInStore(const std::string& path) const { return store_path() + "/" + path; }

 private:
  const CampusId campus_;

 public:
  ScratchDirectory directory;
  SharedLocalStore local;
  uint64_t cache_bytes = uint64_t{1} << 30;
  TestHub hub;
  LiveServer live;
  std::unique_ptr<FaultyClient> uplink;
  std::unique_ptr<cache::BlockCache> cache;
  std::unique_ptr<cache::TreeStore> store;
  std::unique_ptr<fs::HubData> data;

 private:
  TestCampusHub* const main_;
  FamilyIndex cache_index_{local, "cache"}, store_index_{local, "store"};
  std::unique_ptr<LiveClient> upstream_;
};

/// A node of that campus: cache, replica twin and the data plane.
class TestCampusNode {
 public:
  TestCampusNode(uint64_t node, TestNamespace& names, TestCampusHub& hub)
      : node_(node), names_(names), hub_(hub), replica(hub.campus(), node_, names) {
    replica.SetHub([this](const metadata::Message& message) { hub_.Receive(message); });
    Start();
  }
  ~TestCampusNode() { Kill(); }

  void Start() {
    client_ = std::make_unique<LiveClient>(hub_.live, PeerOf(hub_.campus(), node_));
    line = std::make_unique<FaultyClient>(*client_);
    cache::BlockCache::Options options;
    options.directory = directory.path();
    options.free_floor_bytes = 0;
    auto opened = cache::BlockCache::Open(options, cache_index_);
    ASSERT_THAT(opened, IsOk());
    cache = std::move(*opened);
    fs::NodeData::Options data_options;
    data_options.campus = hub_.campus();
    data_options.node = node_;
    data_options.node_name = "node" + std::to_string(node_.value);
    data_options.limit_bytes_per_second = limit;
    auto made = fs::NodeData::Create(data_options, local, *cache, replica, *line);
    ASSERT_THAT(made, IsOk());
    data = std::move(*made);
    hub_.hub.Connect(hub_.campus(), node_, [this](const metadata::Message& message) {
      if (data) data->OnMessage(message);
    });
  }
  void Kill() {
    hub_.hub.Disconnect(hub_.campus(), node_);
    if (data) data->Stop();
    data.reset();
    cache.reset();
  }

  /// What close(2) does: a dirty file is published as the next version and queued.
  ObjectId Write(InodeId inode, const Content& content, bool enqueue = true) {
    const auto attributes = names_.Get(inode);
    const Generation base = attributes->generation;
    auto object = cache->CreateDirty(inode, base);
    EXPECT_THAT(object, IsOk());
    EXPECT_EQ(::pwrite((*object)->fd(), content.data(), content.size(), 0),
              static_cast<ssize_t>(content.size()));
    (*object)->NoteWrite(0, content.size());
    auto manifest = (*object)->ComputeManifest();
    EXPECT_THAT(manifest, IsOk());
    const ObjectId id{inode, metadata::NextGeneration(base, Random::System())};
    names_.Publish(id, *manifest, {hub_.campus(), node_, id.generation, false});
    EXPECT_THAT((*object)->Seal(id.generation, *manifest, false), IsOk());
    if (enqueue) {
      EXPECT_THAT(data->write_back().Enqueue(id, true), IsOk());
    }
    return id;
  }
  /// Reads it whole through the fetcher.
  Result<Content> Read(const ObjectId& id) {
    const auto attributes = QUADFS_TRY(names_.Get(id.inode));
    auto object = QUADFS_TRY(cache->FindOrCreate(id, attributes.size, attributes.root));
    QUADFS_TRY(data->fetcher().Complete(object, fs::Fetcher::Priority::kReader, InTime()));
    Content content;
    for (uint64_t i = 0; i < cache::BlockCount(attributes.size); ++i) {
      const auto block = QUADFS_TRY(object->ReadBlock(i));
      content.insert(content.end(), block.begin(), block.end());
    }
    return content;
  }
  metadata::Location location(const ObjectId& id) const {
    return {hub_.campus(), node_, id.generation, false};
  }

 private:
  const NodeId node_;
  TestNamespace& names_;
  TestCampusHub& hub_;

 public:
  ScratchDirectory directory;
  SharedLocalStore local;
  uint64_t limit = 0;
  TestReplica replica;
  std::unique_ptr<FaultyClient> line;
  std::unique_ptr<cache::BlockCache> cache;
  std::unique_ptr<fs::NodeData> data;

 private:
  FamilyIndex cache_index_{local, "cache"};
  std::unique_ptr<LiveClient> client_;
};

}  // namespace quadfs::test
