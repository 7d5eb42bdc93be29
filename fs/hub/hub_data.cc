#include "fs/hub/hub_data.h"

#include "fs/data/hub_source.h"
#include "fs/data/messages.h"
#include "fs/data/prefetch.h"
#include "fs/hub/archive_policy.h"
#include "fs/hub/data_service.h"
#include "fs/hub/report_relay.h"
#include "fs/hub/store_reader.h"
#include "fs/hub/tree_mirror.h"
#include "fs/hub/upstream_source.h"

namespace quadfs::fs {
namespace {

constexpr std::chrono::seconds kLocateDeadline{10};

class HubDataImpl final : public HubData {
 public:
  HubDataImpl(Options options, metadata::LocalStore& local, cache::BlockCache& cache,
              cache::TreeStore& store, metadata::Hub& hub, transport::Client* upstream);
  ~HubDataImpl() override { Stop(); }

  Result<void> Open(metadata::LocalStore& local);

  void AddRoutes(transport::Server& server) override { service_.AddRoutes(server); }
  Result<void> Start() override;
  void Stop() override;
  void OnChange(const metadata::Change& change) override { mirror_.OnChange(change); }
  void OnReset() override { mirror_.CheckAll(); }
  void OnMessage(const metadata::Message& message) override;
  WriteBack* write_back() override { return write_back_.get(); }
  Fetcher& fetcher() override { return *fetcher_; }
  Status status() const override;

 private:
  Result<void> OnStored(const ObjectId& object);
  Result<void> OnHeld(const ObjectId& object);

  const Options options_;
  metadata::Hub& hub_;
  transport::Client* const upstream_;
  std::optional<HubSource> main_source_;
  WantBroker broker_;
  UpstreamSource source_, local_source_;
  std::unique_ptr<Fetcher> fetcher_, local_fetcher_;
  ObjectReader reader_, local_reader_;
  StoreReader store_reader_;
  std::unique_ptr<WriteBack> write_back_;
  std::unique_ptr<WantServer> wants_;
  TreeMirror mirror_;
  Ingest ingest_;
  DataService service_;
  Prefetcher prefetcher_;
  ReportRelay relay_;
};

HubDataImpl::HubDataImpl(Options options, metadata::LocalStore& local, cache::BlockCache& cache,
                         cache::TreeStore& store, metadata::Hub& hub, transport::Client* upstream)
    : options_(std::move(options)),
      hub_(hub),
      upstream_(upstream),
      main_source_(upstream != nullptr ? std::make_optional<HubSource>(*upstream) : std::nullopt),
      broker_({}, hub),
      source_(options_.campus, UpstreamSource::Scope::kEverywhere, hub.view(), broker_,
              main_source_ ? &*main_source_ : nullptr),
      local_source_(options_.campus, UpstreamSource::Scope::kOwnNodes, hub.view(), broker_,
                    nullptr),
      fetcher_(Fetcher::Create({.connections = 8}, cache, source_)),
      local_fetcher_(Fetcher::Create({.connections = 4}, cache, local_source_)),
      reader_({hub.view(), store, cache, *fetcher_, source_}),
      local_reader_({hub.view(), store, cache, *local_fetcher_, local_source_}),
      store_reader_(store, hub.view(), local_reader_),
      mirror_(
          local, store, hub.view(), options_.primary,
          [this](const ObjectId& object) {
            return ingest_.CarryFork(object, Deadline::After(kLocateDeadline));
          },
          [this](const ObjectId& object) { return OnHeld(object); }),
      ingest_(options_.campus, hub, store, mirror_.tree(),
              [this](const ObjectId& object) { return OnStored(object); }),
      service_(options_.campus, options_.primary, reader_, broker_, ingest_),
      prefetcher_(cache, hub.view(), *fetcher_),
      relay_(options_.campus, options_.primary, hub,
             [this](const metadata::Message& message) { prefetcher_.OnMessage(message); }) {}

Result<void> HubDataImpl::Open(metadata::LocalStore& local) {
  if (upstream_ == nullptr) return {};
  write_back_ =
      QUADFS_TRY(WriteBack::Create({.limit_bytes_per_second = options_.limit_bytes_per_second},
                                   local, store_reader_, *upstream_));
  wants_ = std::make_unique<WantServer>(*upstream_, store_reader_);
  return {};
}

/// A version is in the store: pass it on. Before its sender hears of it, so that none is forgotten.
Result<void> HubDataImpl::OnStored(const ObjectId& object) {
  if (write_back_ == nullptr || store_reader_.NeedOf(object) != UploadReader::Need::kSend) {
    return {};
  }
  return write_back_->Enqueue(object, true);
}

/// At start, and behind every change: what a crash kept from being told or passed on.
Result<void> HubDataImpl::OnHeld(const ObjectId& object) {
  const auto attributes = hub_.view().Get(object.inode);
  if (!attributes.ok() || attributes->nlink == 0 || attributes->generation != object.generation) {
    return {};  // An older version: it is on its way out.
  }
  QUADFS_TRY(OnStored(object));
  return ingest_.Locate(object, Deadline::After(kLocateDeadline));
}

Result<void> HubDataImpl::Start() {
  mirror_.Start();
  relay_.Start();
  return {};
}

void HubDataImpl::Stop() {
  broker_.Stop();
  relay_.Stop();
  prefetcher_.Stop();
  if (wants_) wants_->Stop();
  if (write_back_) write_back_->Stop();
  fetcher_->Stop();
  local_fetcher_->Stop();
  mirror_.Stop();
}

void HubDataImpl::OnMessage(const metadata::Message& message) {
  switch (message.kind) {
    case kMessageWant:
      // Only main, the listener we stand before, may want from us.
      if (wants_ && message.campus == kMainCampus && !message.node) wants_->OnWant(message);
      break;
    case kMessageCacheReport:
    case kMessagePrefetch: relay_.OnMessage(message); break;
    default: break;
  }
}

HubData::Status HubDataImpl::status() const {
  const auto mirror = mirror_.status();
  Status status;
  status.mirror_waiting = mirror.waiting;
  status.corrupt_blocks =
      reader_.corrupt_blocks() + local_reader_.corrupt_blocks() + fetcher_->status().corrupt_blocks;
  status.problem = !reader_.problem().empty()         ? reader_.problem()
                   : !local_reader_.problem().empty() ? local_reader_.problem()
                                                      : mirror.problem;
  return status;
}

}  // namespace

Result<std::unique_ptr<HubData>> HubData::Create(Options options, metadata::LocalStore& local,
                                                 cache::BlockCache& cache, cache::TreeStore& store,
                                                 metadata::Hub& hub, transport::Client* upstream) {
  if (options.primary != (upstream == nullptr)) {
    return Error(ErrorCode::kInvalidArgument,
                 "main's hub has no upstream, every other hub has one");
  }
  auto data = std::make_unique<HubDataImpl>(std::move(options), local, cache, store, hub, upstream);
  QUADFS_TRY(data->Open(local));
  return std::unique_ptr<HubData>(std::move(data));
}

}  // namespace quadfs::fs
