#include "fs/hub/ingest.h"

#include <algorithm>
#include <optional>

#include "fs/data/block_cutter.h"

namespace quadfs::fs {
namespace {

constexpr size_t kReadBytes = size_t{512} << 10;

Result<void> FeedBody(transport::Request& request, BlockCutter& cutter) {
  std::vector<std::byte> buffer(kReadBytes);
  for (;;) {
    const size_t count = QUADFS_TRY(request.ReadBody(buffer));
    if (count == 0) return cutter.Finish();
    QUADFS_TRY(cutter.Feed(std::span(buffer).subspan(0, count)));
  }
}

}  // namespace

Ingest::Ingest(CampusId campus, metadata::Hub& hub, cache::TreeStore& store, StoreTree& tree,
               OnStored on_stored)
    : campus_(campus), hub_(hub), store_(store), tree_(tree), on_stored_(std::move(on_stored)) {}

Result<void> Ingest::CheckCurrent(const ObjectId& object) const {
  const auto attributes = hub_.view().Get(object.inode);
  if (!attributes.ok()) {
    if (attributes.error().code() != ErrorCode::kNotFound) return attributes.error();
    // A campus may be ahead of us; if the file is gone for good, its own view says so too.
    return Error(ErrorCode::kBusy, "this hub has not heard of the file yet");
  }
  if (attributes->nlink == 0) return Error(ErrorCode::kStale, "the file was removed");
  if (attributes->generation > object.generation) {
    return Error(ErrorCode::kStale, "a newer version of the file was published");
  }
  if (attributes->generation < object.generation) {
    return Error(ErrorCode::kBusy, "this hub has not heard of that version yet");
  }
  return {};
}

Result<void> Ingest::CheckWanted(const ObjectId& object, const cache::Manifest& manifest) const {
  QUADFS_TRY(CheckCurrent(object));
  const auto attributes = QUADFS_TRY(hub_.view().Get(object.inode));
  if (attributes.generation != object.generation) {
    return Error(ErrorCode::kStale, "a newer version of the file was published");
  }
  if (attributes.size != manifest.size_bytes() || attributes.root != manifest.Root()) {
    return Error(ErrorCode::kCorruption, "the manifest is not that of the published version");
  }
  return {};
}

Ingest::IncomingRef Ingest::Find(const ObjectId& object) {
  MutexLock lock(mutex_);
  const auto found = uploads_.find(object);
  return found == uploads_.end() ? nullptr : found->second;
}

void Ingest::Forget(const ObjectId& object) {
  IncomingRef gone;  // Closed behind the lock.
  MutexLock lock(mutex_);
  if (auto node = uploads_.extract(object)) gone = std::move(node.mapped());
}

Result<Ingest::IncomingRef> Ingest::Begin(const ObjectId& object, const cache::Manifest& manifest) {
  if (auto incoming = Find(object)) return incoming;
  auto incoming = QUADFS_TRY(store_.Begin(object, manifest));
  IncomingRef gone;
  MutexLock lock(mutex_);
  if (uploads_.size() >= kMaxUploads) {
    gone = std::move(uploads_.begin()->second);
    uploads_.erase(uploads_.begin());  // It is on disk: announcing it again resumes it.
  }
  uploads_[object] = incoming;
  return incoming;
}

/// Blocks that are as in the version the store has need not be sent.
void Ingest::CopyUnchanged(const ObjectId& object, cache::Incoming& incoming,
                           Deadline deadline) const {
  const auto held = store_.HeldGeneration(object.inode);
  if (!held) return;
  const ObjectId old{object.inode, *held};
  const auto before = store_.ReadManifest(old);
  if (!before.ok()) return;
  const auto& manifest = incoming.manifest();
  const uint64_t common = std::min(manifest.block_count(), before->block_count());
  const auto half = std::chrono::steady_clock::now() + deadline.Left() / 2;
  for (const uint64_t index : incoming.Missing(static_cast<size_t>(common))) {
    if (index >= common || std::chrono::steady_clock::now() > half) return;
    if (manifest.block(index) != before->block(index) ||
        manifest.BlockLength(index) != before->BlockLength(index)) {
      continue;
    }
    const auto block = store_.ReadBlock(old, index);
    // What cannot be copied is sent.
    if (!block.ok() || !incoming.WriteBlock(index, *block).ok()) return;
  }
}

Result<Ingest::State> Ingest::Announce(const ObjectId& object, const cache::Manifest& manifest,
                                       Deadline deadline) {
  QUADFS_TRY(CheckWanted(object, manifest));
  State state;
  if (store_.Holds(object)) {
    QUADFS_TRY(on_stored_(object));
    QUADFS_TRY(Locate(object, deadline));
    state.held = true;
    return state;
  }
  const auto incoming = QUADFS_TRY(Begin(object, manifest));
  CopyUnchanged(object, *incoming, deadline);
  for (const uint64_t index : incoming->Missing(static_cast<size_t>(manifest.block_count()))) {
    auto& ranges = state.missing;
    if (!ranges.empty() && ranges.back().first + ranges.back().second == index) {
      ++ranges.back().second;
    } else if (ranges.size() == kMaxRanges) {
      break;
    } else {
      ranges.emplace_back(index, 1);
    }
  }
  return state;
}

Result<void> Ingest::TakeBlocks(transport::Request& request, const Range& range) {
  const auto incoming = Find(range.object);
  if (incoming == nullptr) {
    return Error(ErrorCode::kNotFound, "no such upload: announce it again");
  }
  const auto& manifest = incoming->manifest();
  if (range.first + range.count > manifest.block_count()) {
    return Error(ErrorCode::kInvalidArgument, "blocks beyond the end of the object");
  }
  BlockCutter cutter(range.first, range.count, manifest.size_bytes(),
                     [&](uint64_t index, std::span<const std::byte> block) {
                       return incoming->WriteBlock(index, block);
                     });
  return FeedBody(request, cutter);
}

Result<void> Ingest::Commit(const ObjectId& object, Deadline deadline) {
  if (!store_.Holds(object)) {
    if (auto current = CheckCurrent(object); !current.ok()) {
      if (current.error().code() == ErrorCode::kStale) {
        if (const auto incoming = Find(object)) incoming->Abort();
        Forget(object);
      }
      return current;
    }
    const auto incoming = Find(object);
    if (incoming == nullptr) {
      return Error(ErrorCode::kNotFound, "no such upload: announce it again");
    }
    // What it replaces may be the only copy of what lost a merge. Damaged, it is none.
    if (const auto held = store_.HeldGeneration(object.inode)) {
      auto carried = CarryFork({object.inode, *held}, deadline);
      if (!carried.ok() && carried.error().code() != ErrorCode::kCorruption) return carried;
    }
    auto committed = tree_.Commit(object, *incoming);
    // The same commit may have ended in another request.
    if (!committed.ok() && !store_.Holds(object)) return committed;
    Forget(object);
  }
  QUADFS_TRY(on_stored_(object));
  return Locate(object, deadline);
}

Result<void> Ingest::CarryFork(const ObjectId& held, Deadline deadline) {
  const auto carrier = QUADFS_TRY(hub_.view().ForkOf(held));
  if (!carrier) return {};
  const ObjectId copy{*carrier, held.generation};
  auto current = CheckCurrent(copy);
  if (current.ok()) {
    if (!store_.Holds(copy)) QUADFS_TRY(CopyHeld(held, copy));
    QUADFS_TRY(on_stored_(copy));
    QUADFS_TRY(Locate(copy, deadline));
  } else if (current.error().code() != ErrorCode::kStale) {
    return current;
  }
  return tree_.Drop(held);
}

Result<void> Ingest::CopyHeld(const ObjectId& from, const ObjectId& to) {
  const auto held = QUADFS_TRY(store_.ReadManifest(from));
  const auto incoming = QUADFS_TRY(Begin(to, held));
  const auto& manifest = incoming->manifest();
  for (const uint64_t index : incoming->Missing(static_cast<size_t>(manifest.block_count()))) {
    const auto block = QUADFS_TRY(store_.ReadBlock(from, index));
    QUADFS_TRY(incoming->WriteBlock(index, block));
  }
  auto committed = tree_.Commit(to, *incoming);
  if (!committed.ok() && !store_.Holds(to)) return committed;  // Another request may have done it.
  Forget(to);
  return {};
}

Result<void> Ingest::TakeWhole(transport::Request& request, const Range& range) {
  if (store_.Holds(range.object)) return Commit(range.object, request.deadline());
  IncomingRef incoming;
  bool held = false;
  BlockCutter cutter(range.first, range.count, std::nullopt,
                     [&](uint64_t index, std::span<const std::byte> block) -> Result<void> {
                       return held ? Result<void>() : incoming->WriteBlock(index, block);
                     });
  cutter.ExpectManifest([&](cache::Manifest manifest) -> Result<void> {
    QUADFS_TRY(CheckWanted(range.object, manifest));
    auto begun = Begin(range.object, manifest);
    held = !begun.ok() && begun.error().code() == ErrorCode::kExists;
    if (held) return {};
    incoming = QUADFS_TRY(std::move(begun));
    return {};
  });
  QUADFS_TRY(FeedBody(request, cutter));
  return Commit(range.object, request.deadline());
}

Result<void> Ingest::Locate(const ObjectId& object, Deadline deadline) {
  const metadata::Location here{campus_, NodeId(0), object.generation, true};
  const auto known = hub_.view().Locations(object.inode);
  if (known.ok() && std::find(known->begin(), known->end(), here) != known->end()) return {};
  metadata::Operation operation;
  operation.kind = metadata::OpKind::kLocate;
  operation.inode = object.inode;
  operation.location = here;
  operation.now_ns = Clock::System().WallNanoseconds();
  auto told = hub_.Submit(operation, deadline);
  if (told.ok()) return {};
  return std::move(told).error().Within("location of " + cache::ObjectName(object));
}

}  // namespace quadfs::fs
