#include "fs/hub/data_service.h"

#include <algorithm>
#include <charconv>

#include "fs/data/block_cutter.h"
#include "fs/data/bundle_stream.h"
#include "fs/data/proto/data.pb.h"

namespace quadfs::fs {
namespace {

constexpr char kBytes[] = "application/octet-stream";
constexpr char kProtobuf[] = "application/x-protobuf";
constexpr uint64_t kMaxRangeBlocks = uint64_t{1} << 20;
constexpr size_t kFlushBytes = size_t{256} << 10;

Result<uint64_t> Number(std::string_view text, const char* what) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Error(ErrorCode::kInvalidArgument, std::string(what) + " must be a number");
  }
  return number;
}

std::string LastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Result<WantBroker::Wanted> RangeOf(const transport::Request& request) {
  const WantBroker::Wanted range{QUADFS_TRY(cache::ParseObjectName(LastPart(request.path()))),
                                 QUADFS_TRY(Number(request.query("first"), "first")),
                                 QUADFS_TRY(Number(request.query("count"), "count"))};
  if (range.count > kMaxRangeBlocks || range.first > UINT64_MAX / kBlockBytes - range.count) {
    return Error(ErrorCode::kInvalidArgument, "the range of blocks is too large");
  }
  return range;
}

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

void DataService::Route(transport::Server& server, const char* method, const char* path,
                        Served serve) {
  server.Route(method, path, {transport::Role::kNode, transport::Role::kHub},
               [this, serve](Request& request, Response& response) {
                 auto served = CheckPeer(request.peer());
                 if (served.ok()) served = (this->*serve)(request, response);
                 // A peer that is gone cannot be told.
                 if (!served.ok()) (void)response.Fail(served.error());
               });
}

void DataService::AddRoutes(transport::Server& server) {
  Route(server, "GET", "/v1/data/", &DataService::GetBlocks);
  Route(server, "PUT", "/v1/data/", &DataService::PutBlocks);
  Route(server, "GET", "/v1/manifest/", &DataService::GetManifest);
  Route(server, "POST", "/v1/bundle", &DataService::PostBundle);
  Route(server, "POST", "/v1/want/", &DataService::PostWant);
  Route(server, "POST", "/v1/incoming/", &DataService::PostIncoming);
  Route(server, "POST", "/v1/commit/", &DataService::PostCommit);
}

Result<void> DataService::CheckPeer(const transport::PeerIdentity& peer) const {
  const bool own_node = peer.role == transport::Role::kNode && peer.campus == campus_;
  const bool branch_hub = primary_ && peer.role == transport::Role::kHub && peer.campus != campus_;
  if (own_node || branch_hub) return {};
  return Error(ErrorCode::kUnauthenticated,
               peer.name + " belongs to another campus: ask that campus's hub");
}

Result<void> DataService::GetBlocks(Request& request, Response& response) {
  const auto range = QUADFS_TRY(RangeOf(request));
  const bool with_manifest = request.query("manifest") == "1";
  const Deadline deadline = request.deadline();
  OpenObject open = QUADFS_TRY(reader_.Open(range.object, deadline));
  const uint64_t blocks = cache::BlockCount(open.size_bytes);
  if (range.first + range.count > blocks) {
    return Error(ErrorCode::kInvalidArgument, "blocks beyond the end of the object");
  }
  reader_.WillRead(open, range.first, range.count);
  const uint64_t end = range.first + range.count;
  bool started = false;
  // After the first bytes are here: what fails before them is said in words.
  const auto start = [&]() -> Result<void> {
    started = true;
    std::string head;
    if (with_manifest) head = ManifestPrefix(QUADFS_TRY(reader_.ManifestOf(open, deadline)));
    uint64_t body_bytes = head.size();
    if (range.count > 0) {
      body_bytes += std::min(open.size_bytes, end * kBlockBytes) - range.first * kBlockBytes;
    }
    QUADFS_TRY(response.Start(200, kBytes, body_bytes));
    return head.empty() ? Result<void>() : response.Write(BytesOf(head));
  };
  const auto pass = [&](std::span<const std::byte> piece) -> Result<void> {
    if (!started) QUADFS_TRY(start());
    return response.Write(piece);
  };
  for (uint64_t next = range.first; next < end; ++next) {
    QUADFS_TRY(reader_.PassBlock(open, next, deadline, pass));
  }
  return started ? Result<void>() : start();
}

Result<void> DataService::GetManifest(Request& request, Response& response) {
  const auto object = QUADFS_TRY(cache::ParseObjectName(LastPart(request.path())));
  OpenObject open = QUADFS_TRY(reader_.Open(object, request.deadline()));
  const auto manifest = QUADFS_TRY(reader_.ManifestOf(open, request.deadline()));
  return response.Reply(200, kBytes, manifest.Serialize());
}

Result<void> DataService::PostBundle(Request& request, Response& response) {
  data::BundleRequest wanted;
  if (!wanted.ParseFromString(QUADFS_TRY(request.ReadAll())) ||
      static_cast<size_t>(wanted.objects_size()) > kMaxBundleObjects) {
    return Error(ErrorCode::kInvalidArgument, "the request for a bundle cannot be read");
  }
  const Deadline deadline = request.deadline();
  QUADFS_TRY(response.Start(200, kBytes, std::nullopt));
  std::string out;
  constexpr int kGroup = 256;  // Fetched together; memory stays bounded by it.
  for (int from = 0; from < wanted.objects_size(); from += kGroup) {
    std::vector<OpenObject> group;
    for (int i = from; i < std::min(wanted.objects_size(), from + kGroup); ++i) {
      const ObjectId object{InodeId(wanted.objects(i).inode()),
                            Generation(wanted.objects(i).generation())};
      auto open = reader_.Open(object, deadline);
      if (open.ok() && open->size_bytes <= kBlockBytes) {
        group.push_back(std::move(*open));
      } else {
        AppendBundleItem(out, object,
                         open.ok() ? Error(ErrorCode::kTooLarge, "too large for a bundle")
                                   : std::move(open).error());
      }
    }
    reader_.FetchTogether(group, deadline);
    for (OpenObject& open : group) {
      AppendBundleItem(out, open.object,
                       open.size_bytes == 0
                           ? Result<std::vector<std::byte>>(std::vector<std::byte>())
                           : reader_.ReadBlock(open, 0, deadline));
      if (out.size() < kFlushBytes) continue;
      QUADFS_TRY(response.Write(BytesOf(out)));
      out.clear();
    }
  }
  return out.empty() ? Result<void>() : response.Write(BytesOf(out));
}

Result<void> DataService::PutBlocks(Request& request, Response& response) {
  const auto range = QUADFS_TRY(RangeOf(request));
  if (const std::string want = request.query("want"); !want.empty()) {
    const uint64_t id = QUADFS_TRY(Number(want, "want"));
    QUADFS_TRY(broker_.TakeBlocks(request, id, range));
    return response.Reply(200, kBytes, {});
  }
  const Ingest::Range blocks{range.object, range.first, range.count};
  if (request.query("commit") == "1") {
    QUADFS_TRY(ingest_.TakeWhole(request, blocks));
    data::IncomingAnswer answer;
    answer.set_held(true);
    return response.Reply(200, kProtobuf, answer.SerializeAsString());
  }
  QUADFS_TRY(ingest_.TakeBlocks(request, blocks));
  return response.Reply(200, kBytes, {});
}

Result<void> DataService::PostWant(Request& request, Response& response) {
  data::WantFailure failure;
  const uint64_t id = QUADFS_TRY(Number(LastPart(request.path()), "the want"));
  if (!failure.ParseFromString(QUADFS_TRY(request.ReadAll(65536)))) {
    return Error(ErrorCode::kInvalidArgument, "the answer to a want cannot be read");
  }
  QUADFS_TRY(broker_.TakeFailure(request.peer(), id,
                                 Error(ErrorCodeFromNumber(failure.code()), failure.message())));
  return response.Reply(200, kBytes, {});
}

Result<void> DataService::PostIncoming(Request& request, Response& response) {
  const auto object = QUADFS_TRY(cache::ParseObjectName(LastPart(request.path())));
  const std::string body = QUADFS_TRY(request.ReadAll(BlockCutter::kMaxManifestBytes));
  const auto manifest = QUADFS_TRY(cache::Manifest::Parse(body));
  const auto state = QUADFS_TRY(ingest_.Announce(object, manifest, request.deadline()));
  data::IncomingAnswer answer;
  answer.set_held(state.held);
  for (const auto& [first, count] : state.missing) {
    auto* range = answer.add_missing();
    range->set_first(first);
    range->set_count(count);
  }
  return response.Reply(200, kProtobuf, answer.SerializeAsString());
}

Result<void> DataService::PostCommit(Request& request, Response& response) {
  const auto object = QUADFS_TRY(cache::ParseObjectName(LastPart(request.path())));
  QUADFS_TRY(ingest_.Commit(object, request.deadline()));
  return response.Reply(200, kBytes, {});
}

}  // namespace quadfs::fs
