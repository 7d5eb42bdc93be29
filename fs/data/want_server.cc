#include "fs/data/want_server.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "fs/data/block_cutter.h"
#include "fs/data/hub_source.h"
#include "fs/data/proto/data.pb.h"

namespace quadfs::fs {

WantServer::WantServer(transport::Client& hub, WantReader& reader, size_t threads)
    : hub_(hub), reader_(reader) {
  for (size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { Work(stop); });
  }
}

void WantServer::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    work_.NotifyAll();
  }
  for (auto& thread : threads_) thread.request_stop();
  threads_.clear();
}

void WantServer::OnWant(const metadata::Message& message) {
  data::Want want;
  if (!want.ParseFromString(message.payload)) return;  // The hub's wait for it is bounded.
  MutexLock lock(mutex_);
  if (stopping_) return;
  if (jobs_.size() >= kMaxQueued) {
    if (refused_.size() < kMaxQueued) refused_.push_back(want.id());
  } else {
    jobs_.push_back({want.id(),
                     {InodeId(want.object().inode()), Generation(want.object().generation())},
                     want.first(),
                     want.count(),
                     want.manifest(),
                     Deadline::After(std::chrono::milliseconds(
                         std::clamp<uint32_t>(want.deadline_ms(), 1, 600'000)))});
  }
  work_.NotifyOne();
}

void WantServer::Work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::optional<Job> job;
    std::optional<uint64_t> refused;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && jobs_.empty() && refused_.empty()) work_.Wait(mutex_);
      if (stopping_) return;
      if (!refused_.empty()) {
        refused = refused_.front();
        refused_.pop_front();
      } else {
        job = jobs_.front();
        jobs_.pop_front();
      }
    }
    if (refused) {
      Refuse(*refused, Error(ErrorCode::kBusy, "too many wants are waiting"),
             Deadline::After(std::chrono::seconds(2)));
      continue;
    }
    if (job->deadline.Passed()) continue;  // Nobody waits any more.
    if (auto served = Serve(*job); !served.ok()) Refuse(job->id, served.error(), job->deadline);
  }
}

void WantServer::Refuse(uint64_t id, const Error& error, Deadline deadline) {
  data::WantFailure failure;
  failure.set_code(static_cast<uint32_t>(error.code()));
  failure.set_message(error.message().substr(0, 1024));
  // If it does not arrive, the hub's wait for this want runs out.
  (void)hub_.Call("POST", "/v1/want/" + std::to_string(id), failure.SerializeAsString(), deadline);
}

Result<void> WantServer::Serve(const Job& job) {
  const auto manifest = QUADFS_TRY(reader_.WantedManifest(job.object, job.deadline));
  if (job.first > manifest.block_count() || job.count > manifest.block_count() - job.first) {
    return Error(ErrorCode::kInvalidArgument, "blocks beyond the end of the object are wanted");
  }
  std::string head = job.manifest ? ManifestPrefix(manifest) : std::string();
  uint64_t bytes = head.size();
  for (uint64_t i = 0; i < job.count; ++i) bytes += manifest.BlockLength(job.first + i);
  // The first block before the request begins, so that what fails with it is said in words.
  uint64_t next = job.first;
  std::vector<std::byte> block;
  if (job.count > 0) block = QUADFS_TRY(reader_.WantedBlock(job.object, next++, job.deadline));
  std::string_view head_left = head;
  size_t used = 0;
  const auto source = [&](std::span<std::byte> buffer) -> Result<size_t> {
    if (!head_left.empty()) {
      const size_t piece = std::min(buffer.size(), head_left.size());
      std::memcpy(buffer.data(), head_left.data(), piece);
      head_left.remove_prefix(piece);
      return piece;
    }
    if (used == block.size()) {
      if (next == job.first + job.count) return size_t{0};
      block = QUADFS_TRY(reader_.WantedBlock(job.object, next++, job.deadline));
      used = 0;
    }
    const size_t piece = std::min(buffer.size(), block.size() - used);
    std::memcpy(buffer.data(), block.data() + used, piece);
    used += piece;
    return piece;
  };
  auto sent =
      hub_.Upload(DataTarget(job.object, job.first, job.count) + "&want=" + std::to_string(job.id),
                  bytes, source, job.deadline);
  if (!sent.ok()) return std::move(sent).error();
  return {};
}

}  // namespace quadfs::fs
