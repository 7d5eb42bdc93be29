#include "metadata/snapshot_stream.h"

#include <cstring>

#include "metadata/proto/wire.pb.h"
#include "metadata/wire.h"
#include "transport/frame.h"

namespace quadfs::metadata {
namespace {

constexpr size_t kRowBatchBytes = size_t{512} << 10;

class RowSender {
 public:
  explicit RowSender(transport::Response& response) : response_(response) {}

  Result<void> Send(FrameType type, const std::string& payload) {
    std::string frame;
    transport::AppendFrame(frame, static_cast<uint8_t>(type), payload);
    return response_.Write(std::as_bytes(std::span(frame)));
  }
  Result<void> Add(std::string key, std::string_view value) {
    bytes_ += key.size() + value.size();
    ++rows_;
    batch_.add_keys(std::move(key));
    batch_.add_values(value.data(), value.size());
    return bytes_ < kRowBatchBytes ? Result<void>() : Flush();
  }
  Result<void> Flush() {
    if (batch_.keys_size() == 0) return {};
    const std::string payload = batch_.SerializeAsString();
    batch_.Clear();
    bytes_ = 0;
    return Send(FrameType::kRows, payload);
  }
  uint64_t rows() const { return rows_; }

 private:
  transport::Response& response_;
  wire::RowBatch batch_;
  size_t bytes_ = 0;
  uint64_t rows_ = 0;
};

Result<void> SendAll(const HubCore::Image& image, const std::string& cluster, RowSender& sender) {
  wire::SnapshotHead head;
  head.set_cluster(cluster);
  head.set_position(image.position);
  head.set_chain(image.chain.bytes.data(), image.chain.bytes.size());
  head.set_global(image.global);
  if (auto sent = sender.Send(FrameType::kSnapshotHead, head.SerializeAsString()); !sent.ok())
    return sent;
  for (const Family family : kAllFamilies) {
    if (!IsStateFamily(family)) continue;
    const auto cursor = image.snapshot->NewCursor(family);
    for (cursor->Seek({}); cursor->valid(); cursor->Next()) {
      if (auto added =
              sender.Add(FamilyPrefix(family) + std::string(cursor->key()), cursor->value());
          !added.ok()) {
        return added;
      }
    }
    if (auto status = cursor->status(); !status.ok()) return status;
    if (auto flushed = sender.Flush(); !flushed.ok()) return flushed;
  }
  wire::SnapshotEnd end;
  end.set_rows(sender.rows());
  return sender.Send(FrameType::kSnapshotEnd, end.SerializeAsString());
}

/// Takes the frames of a snapshot, in order, into one ingest a family.
class RowReceiver {
 public:
  RowReceiver(const std::string& cluster, RowStore& store) : cluster_(cluster), store_(store) {}

  Result<void> Take(const transport::Frame& frame) {
    switch (static_cast<FrameType>(frame.type)) {
      case FrameType::kSnapshotHead: return Head(frame.payload);
      case FrameType::kRows: return Rows(frame.payload);
      case FrameType::kSnapshotEnd: return End(frame.payload);
      default: return Error(ErrorCode::kCorruption, "a snapshot has a frame of another kind");
    }
  }
  Result<SnapshotPosition> Finish() {
    if (!complete_) return Error(ErrorCode::kCorruption, "the snapshot ended early");
    return position_;
  }

 private:
  Result<void> Head(const std::string& payload) {
    wire::SnapshotHead head;
    if (!head.ParseFromString(payload) || head.chain().size() != position_.chain.bytes.size()) {
      return Error(ErrorCode::kCorruption, "a snapshot's head cannot be read");
    }
    if (head.cluster() != cluster_) {
      return Error(ErrorCode::kCorruption,
                   "that hub belongs to another cluster, " + head.cluster());
    }
    position_.position = head.position();
    position_.global = head.global();
    std::memcpy(position_.chain.bytes.data(), head.chain().data(), head.chain().size());
    return {};
  }
  Result<void> Rows(const std::string& payload) {
    wire::RowBatch batch;
    if (!batch.ParseFromString(payload) || batch.keys_size() != batch.values_size()) {
      return Error(ErrorCode::kCorruption, "rows of a snapshot cannot be read");
    }
    for (int i = 0; i < batch.keys_size(); ++i) {
      const std::string& key = batch.keys(i);
      const auto family = FamilyOf(key);
      if (!family || !IsStateFamily(*family) || key.size() > kMaxRowKeyBytes ||
          batch.values(i).size() > kMaxRowValueBytes) {
        return Error(ErrorCode::kCorruption, "a snapshot has a row that is none");
      }
      if (family_ != family) {
        if (auto finished = FinishFamily(); !finished.ok()) return finished;
        ingest_ = QUADFS_TRY(store_.NewIngest(*family));
        family_ = family;
      }
      if (auto added = ingest_->Add(key, batch.values(i)); !added.ok()) return added;
      ++rows_;
    }
    return {};
  }
  Result<void> End(const std::string& payload) {
    wire::SnapshotEnd end;
    if (!end.ParseFromString(payload) || end.rows() != rows_) {
      return Error(ErrorCode::kCorruption, "a snapshot is not complete");
    }
    complete_ = true;
    return FinishFamily();
  }
  Result<void> FinishFamily() {
    if (!ingest_) return {};
    auto finished = ingest_->Finish();
    ingest_.reset();
    return finished;
  }

  const std::string& cluster_;
  RowStore& store_;
  SnapshotPosition position_;
  std::optional<Family> family_;
  std::unique_ptr<RowIngest> ingest_;
  uint64_t rows_ = 0;
  bool complete_ = false;
};

}  // namespace

void ServeSnapshot(HubCore& core, const std::string& cluster, transport::Response& response) {
  const HubCore::Image image = core.TakeImage();
  if (!response.Start(200, "application/octet-stream", std::nullopt).ok()) return;
  RowSender sender(response);
  if (auto sent = SendAll(image, cluster, sender); !sent.ok()) (void)response.Fail(sent.error());
}

Result<SnapshotPosition> ReceiveSnapshot(transport::Client& client, const std::string& cluster,
                                         RowStore& store, Deadline deadline) {
  RowReceiver receiver(cluster, store);
  transport::FrameReader reader;
  auto got =
      client.Download("GET", "/v1/snapshot", {}, deadline, [&](std::span<const std::byte> data) {
        return reader.Feed(data,
                           [&](const transport::Frame& frame) { return receiver.Take(frame); });
      });
  if (!got.ok()) return std::move(got).error();
  return receiver.Finish();
}

}  // namespace quadfs::metadata
