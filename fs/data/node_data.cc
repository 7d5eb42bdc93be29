#include "fs/data/node_data.h"

#include "fs/data/cache_reader.h"
#include "fs/data/cache_reporter.h"
#include "fs/data/hub_source.h"
#include "fs/data/locations.h"
#include "fs/data/messages.h"
#include "fs/data/prefetch.h"
#include "fs/data/want_server.h"

namespace quadfs::fs {
namespace {

constexpr std::chrono::seconds kReportDeadline{2};

class NodeDataImpl final : public NodeData {
 public:
  NodeDataImpl(Options options, cache::BlockCache& cache, metadata::NodeReplica& replica,
               transport::Client& hub)
      : options_(std::move(options)),
        cache_(cache),
        replica_(replica),
        source_(hub),
        fetcher_(Fetcher::Create({}, cache, source_)),
        reader_(
            cache, replica.view(),
            [&replica] {
              return replica.Flush(Deadline::After(std::chrono::seconds(5)), /*patient=*/true);
            },
            [this](const ObjectId& copy) { return write_back_->Enqueue(copy, false); }),
        wants_(hub, reader_),
        reporter_(
            {options_.campus, options_.node}, cache, replica.view(),
            [this](std::string payload) {
              return replica_.SendMessage(kMessageCacheReport, std::move(payload),
                                          Deadline::After(kReportDeadline));
            },
            [this] { return replica_.status().connected; }),
        locations_(replica.view(), cached_, options_.campus),
        prefetcher_(cache, replica.view(), *fetcher_) {}
  ~NodeDataImpl() override { Stop(); }

  Result<void> Start(metadata::LocalStore& local, transport::Client& hub);

  Fetcher& fetcher() override { return *fetcher_; }
  WriteBack& write_back() override { return *write_back_; }
  void OnMessage(const metadata::Message& message) override;
  void OnChange(const metadata::Change& change) override;
  SaveState StateOf(const metadata::Attributes& attributes) const override {
    return locations_.StateOf(attributes);
  }
  Result<std::string> LocationsJson(const metadata::Attributes& attributes) const override {
    return locations_.Json(attributes, {options_.node, options_.campus, OwnBytes(attributes)});
  }
  Result<std::string> CampusesText(const metadata::Attributes& attributes) const override {
    return locations_.Campuses(attributes);
  }
  void Stop() override;

 private:
  uint64_t OwnBytes(const metadata::Attributes& attributes) const;

  const Options options_;
  cache::BlockCache& cache_;
  metadata::NodeReplica& replica_;
  HubSource source_;
  CachedBytes cached_;
  std::unique_ptr<Fetcher> fetcher_;
  CacheReader reader_;
  std::unique_ptr<WriteBack> write_back_;
  WantServer wants_;
  CacheReporter reporter_;
  Locations locations_;
  Prefetcher prefetcher_;
};

Result<void> NodeDataImpl::Start(metadata::LocalStore& local, transport::Client& hub) {
  write_back_ = QUADFS_TRY(WriteBack::Create(
      {.limit_bytes_per_second = options_.limit_bytes_per_second}, local, reader_, hub));
  // What a crash left between publishing and queueing.
  for (const auto& object : QUADFS_TRY(cache_.Unsaved())) {
    if (object->unsaved()) QUADFS_TRY(write_back_->Enqueue(object->id(), false));
  }
  return {};
}

void NodeDataImpl::OnChange(const metadata::Change& change) {
  for (const InodeId inode : change.contents) write_back_->Hurry(inode);
  reporter_.OnChange(change);
}

void NodeDataImpl::OnMessage(const metadata::Message& message) {
  switch (message.kind) {
    case kMessageWant: wants_.OnWant(message); break;
    case kMessageCacheReport:
      if (auto report = CacheReportMessage::Decode(message.payload);
          report.ok() && report->node != options_.node) {
        cached_.Apply(*report);
      }
      break;
    case kMessagePrefetch: prefetcher_.OnMessage(message); break;
    default: break;
  }
}

uint64_t NodeDataImpl::OwnBytes(const metadata::Attributes& attributes) const {
  if (attributes.type == metadata::FileType::kDirectory) {
    return reporter_.DirectoryBytes(attributes.inode);
  }
  const auto object = cache_.Find({attributes.inode, attributes.generation});
  return object.ok() ? (*object)->present_bytes() : 0;
}

void NodeDataImpl::Stop() {
  reporter_.Stop();
  prefetcher_.Stop();
  wants_.Stop();
  if (write_back_) write_back_->Stop();
  fetcher_->Stop();
}

}  // namespace

Result<std::unique_ptr<NodeData>> NodeData::Create(Options options, metadata::LocalStore& local,
                                                   cache::BlockCache& cache,
                                                   metadata::NodeReplica& replica,
                                                   transport::Client& hub) {
  auto node = std::make_unique<NodeDataImpl>(std::move(options), cache, replica, hub);
  QUADFS_TRY(node->Start(local, hub));
  return std::unique_ptr<NodeData>(std::move(node));
}

}  // namespace quadfs::fs
