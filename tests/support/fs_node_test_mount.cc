#include "tests/support/fs_node_test_mount.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "transport/base/unique_fd.h"

namespace quadfs::test {

/// The family "cache" of a LocalStore as the cache's rows.
class TestMount::Index final : public cache::IndexStore {
 public:
  explicit Index(metadata::LocalStore& store) : store_(store) {}
  Result<std::string> Get(std::string_view key) const override { return store_.Get("cache", key); }
  Result<void> Put(std::string_view key, std::string_view value) override {
    return store_.Put("cache", key, value);
  }
  Result<void> Erase(std::string_view key) override { return store_.Erase("cache", key); }
  Result<void> Move(std::string_view old_key, std::string_view new_key,
                    std::string_view value) override {
    metadata::LocalStore::Batch batch;
    batch.Erase("cache", std::string(old_key));
    batch.Put("cache", std::string(new_key), std::string(value));
    return store_.Write(batch);
  }
  Result<void> Sync() override { return store_.Sync(); }
  Result<void> Scan(
      std::string_view prefix,
      const std::function<bool(std::string_view, std::string_view)>& row) const override {
    return store_.Scan("cache", prefix, "", row);
  }

 private:
  metadata::LocalStore& store_;
};

class TestMount::Listener final : public metadata::ChangeListener {
 public:
  void Attach(fs::NodeMount* mount) { mount_.store(mount); }
  void OnChange(const metadata::Change& change) override {
    if (fs::NodeMount* mount = mount_.load()) mount->OnChange(change);
  }
  void OnReset() override {
    if (fs::NodeMount* mount = mount_.load()) mount->OnReset();
  }
  void OnMessage(const metadata::Message&) override {}
  void OnLink(bool) override {}

 private:
  std::atomic<fs::NodeMount*> mount_{nullptr};
};

std::string TestMount::WhyNot() {
  const UniqueFd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device) return std::string("/dev/fuse cannot be opened: ") + std::strerror(errno);
  if (::geteuid() != 0) return "only root may mount";
  return "";
}

TestMount::TestMount(TestCluster& cluster, std::string directory, uint64_t node,
                     fs::NodeMount::Options options)
    : cluster_(cluster),
      directory_(std::move(directory)),
      path_(directory_ + "/mnt"),
      options_(std::move(options)),
      listener_(std::make_unique<Listener>()) {
  options_.mount_point = path_;
  options_.node = NodeId(node);
  options_.node_name = "n" + std::to_string(node);
  options_.campus = CampusId(1);
  std::filesystem::create_directories(path_);
  std::filesystem::create_directories(directory_ + "/cache");
}

TestMount::~TestMount() { Stop(); }

Result<void> TestMount::Start() {
  local_ = QUADFS_TRY(metadata::LocalStore::Open(
      directory_ + "/local", {"cache", "journal", "writeback", "node", "held"}));
  index_ = std::make_unique<Index>(*local_);
  cache::BlockCache::Options cache;
  cache.directory = directory_ + "/cache";
  cache.free_floor_bytes = 0;
  cache_ = QUADFS_TRY(cache::BlockCache::Open(cache, *index_));
  replica_ = std::make_unique<TwinReplica>(cluster_.names, options_.node, *listener_);
  data_ = std::make_unique<TwinData>(*cache_, cluster_.peers);
  cluster_.peers.Add(cache_.get());
  mount_ = QUADFS_TRY(fs::NodeMount::Create(options_, *local_, *cache_, *replica_, *data_));
  listener_->Attach(mount_.get());
  QUADFS_TRY(mount_->Mount());
  server_ = std::jthread([this] {
    if (auto served = mount_->Run(); !served.ok()) {
      std::cerr << "test mount: " << served.error().ToString() << "\n";
    }
  });
  mount_->Recover();
  struct stat status {};
  (void)::stat(path_.c_str(), &status);  // Returns once kernel and daemon have shaken hands.
  return {};
}

void TestMount::Stop() {
  if (mount_) mount_->Unmount();
  if (server_.joinable()) server_.join();
  listener_->Attach(nullptr);
  replica_.reset();  // No change comes any more.
  if (data_) data_->Stop();
  mount_.reset();
  data_.reset();
  if (cache_) {
    cluster_.peers.Remove(cache_.get());
    cache_->Flush();
  }
  cache_.reset();
  index_.reset();
  local_.reset();
}

metadata::Attributes TestMount::RowOf(const std::string& name) const {
  auto row = cluster_.names.view().Resolve(name, {});
  return row.ok() ? *row : metadata::Attributes();
}

}  // namespace quadfs::test
