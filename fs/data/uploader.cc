#include "fs/data/uploader.h"

#include <algorithm>
#include <cstring>

#include "fs/data/block_cutter.h"
#include "fs/data/hub_source.h"
#include "fs/data/proto/data.pb.h"

namespace quadfs::fs {
namespace {

constexpr std::chrono::seconds kMessageDeadline{30};

/// Waits until `at`, or `stop`; false if stopped.
bool WaitUntil(Clock::TimePoint at, const std::stop_token& stop) {
  Mutex mutex;
  CondVar changed;
  const std::stop_callback wake(stop, [&] {
    MutexLock lock(mutex);
    changed.NotifyAll();
  });
  MutexLock lock(mutex);
  while (!stop.stop_requested()) {
    if (std::chrono::steady_clock::now() >= at) return true;
    (void)changed.WaitUntil(mutex, at);
  }
  return false;
}

uint64_t RunBytes(const cache::Manifest& manifest, uint64_t first, uint64_t count) {
  if (count == 0) return 0;
  return (count - 1) * kBlockBytes + manifest.BlockLength(first + count - 1);
}

}  // namespace

Deadline Uploader::DeadlineFor(uint64_t bytes) const {
  const uint64_t rate = bucket_.rate();
  const uint64_t slowest = rate == 0 ? uint64_t{1} << 20 : std::min(rate, uint64_t{1} << 20);
  // Three times what it takes at the cap (or 1 MiB/s), as several uploads share it.
  return Deadline::After(std::chrono::seconds(60 + 3 * (bytes / slowest)));
}

Result<void> Uploader::Put(const std::string& target, std::string_view head, const ObjectId& object,
                           const cache::Manifest& manifest, uint64_t first, uint64_t count,
                           const std::stop_token& stop, const Progress& progress) {
  const uint64_t bytes = head.size() + RunBytes(manifest, first, count);
  std::vector<std::byte> block;
  size_t used = 0;
  uint64_t next = first;
  const auto source = [&](std::span<std::byte> buffer) -> Result<size_t> {
    if (buffer.empty()) return size_t{0};
    if (head.empty() && used == block.size()) {
      if (next == first + count) return size_t{0};
      block = QUADFS_TRY(reader_.ReadBlock(object, next));
      if (block.size() != manifest.BlockLength(next)) {
        return Error(ErrorCode::kStale, "the object changed while it was sent");
      }
      ++next;
      used = 0;
    }
    const bool from_head = !head.empty();
    const size_t here = from_head ? head.size() : block.size() - used;
    const size_t piece =
        static_cast<size_t>(std::min<uint64_t>({here, buffer.size(), bucket_.PieceBytes()}));
    if (!WaitUntil(bucket_.Take(piece), stop)) return Error(ErrorCode::kCancelled, "stopping");
    if (from_head) {
      std::memcpy(buffer.data(), head.data(), piece);
      head.remove_prefix(piece);
    } else {
      std::memcpy(buffer.data(), block.data() + used, piece);
      used += piece;
    }
    progress(piece);
    return piece;
  };
  auto answer = client_.Upload(target, bytes, source, DeadlineFor(bytes));
  if (!answer.ok()) return std::move(answer).error();
  return {};
}

Result<void> Uploader::SendWhole(const ObjectId& object, const cache::Manifest& manifest,
                                 const std::stop_token& stop, const Progress& progress) {
  return Put(DataTarget(object, 0, manifest.block_count()) + "&manifest=1&commit=1",
             ManifestPrefix(manifest), object, manifest, 0, manifest.block_count(), stop, progress);
}

Result<void> Uploader::SendRun(const ObjectId& object, const cache::Manifest& manifest,
                               uint64_t first, uint64_t count, const std::stop_token& stop,
                               const Progress& progress) {
  // Under a tight cap a request carries what goes out within some 20 s.
  const uint64_t rate = bucket_.rate();
  const uint64_t limit =
      rate == 0 ? kRunBlocks : std::clamp<uint64_t>(rate * 20 / kBlockBytes, 1, kRunBlocks);
  for (uint64_t done = 0; done < count;) {
    const uint64_t now = std::min(limit, count - done);
    if (auto sent = Put(DataTarget(object, first + done, now), {}, object, manifest, first + done,
                        now, stop, progress);
        !sent.ok()) {
      return sent;
    }
    done += now;
  }
  return {};
}

Result<void> Uploader::Send(const ObjectId& object, const std::stop_token& stop,
                            const Progress& progress) {
  const auto manifest = QUADFS_TRY(reader_.ManifestOf(object));
  if (manifest.block_count() <= kOneRequestBlocks) {
    return SendWhole(object, manifest, stop, progress);
  }
  const std::string name = cache::ObjectName(object);
  const std::string announced = manifest.Serialize();
  // Each round names what is missing; a file without progress in one round has a problem.
  for (uint64_t round = 0; round <= manifest.block_count() / 64 + 2; ++round) {
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopping");
    const auto answer = QUADFS_TRY(client_.Call("POST", "/v1/incoming/" + name, announced,
                                                DeadlineFor(manifest.size_bytes() / 16)));
    data::IncomingAnswer state;
    if (!state.ParseFromString(answer.body)) {
      return Error(ErrorCode::kCorruption, "the hub's answer to an upload cannot be read");
    }
    if (state.held()) return {};
    if (state.missing().empty()) {
      // Read back and checked there at the speed of its disks: allow for 20 MB/s.
      const Deadline deadline = Deadline::After(
          kMessageDeadline + std::chrono::seconds(manifest.size_bytes() / 20'000'000));
      auto committed = client_.Call("POST", "/v1/commit/" + name, {}, deadline);
      if (committed.ok()) return {};
      if (committed.error().code() != ErrorCode::kNotFound) return std::move(committed).error();
      continue;  // It forgot, or a block went bad on its disk: ask again what is missing.
    }
    for (const auto& range : state.missing()) {
      if (range.first() >= manifest.block_count() ||
          range.count() > manifest.block_count() - range.first()) {
        return Error(ErrorCode::kCorruption, "the hub asks for blocks that do not exist");
      }
      if (auto sent = SendRun(object, manifest, range.first(), range.count(), stop, progress);
          !sent.ok()) {
        return sent;
      }
    }
  }
  return Error(ErrorCode::kUnavailable, "the hub keeps asking for blocks of " + name);
}

}  // namespace quadfs::fs
