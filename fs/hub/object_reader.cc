#include "fs/hub/object_reader.h"

#include <algorithm>

namespace quadfs::fs {
namespace {

constexpr int kAttempts = 3;  ///< Of a block that vanishes between its arrival and its reading.
constexpr uint64_t kReaderRunBlocks = 4;  ///< Up to so many blocks somebody waits; more is bulk.

}  // namespace

std::string ObjectReader::problem() const {
  MutexLock lock(mutex_);
  return problem_;
}

Result<cache::ObjectRef> ObjectReader::CacheObjectOf(const ObjectId& object, Deadline deadline) {
  const auto attributes = QUADFS_TRY(parts_.view.Get(object.inode));
  if (attributes.generation == object.generation) {
    return parts_.cache.FindOrCreate(object, attributes.size, attributes.root);
  }
  if (auto found = parts_.cache.Find(object); found.ok()) return found;
  const auto locations = parts_.view.Locations(object.inode);
  const bool known =
      locations.ok() &&
      std::any_of(locations->begin(), locations->end(), [&](const metadata::Location& location) {
        return location.generation == object.generation;
      });
  if (!known) {
    return Error(ErrorCode::kNotFound, "no such version: " + cache::ObjectName(object));
  }
  // An older version: its root is not in the namespace any more. Whoever asked checks it.
  auto manifest = QUADFS_TRY(parts_.source.FetchManifest(object, deadline));
  auto created =
      QUADFS_TRY(parts_.cache.FindOrCreate(object, manifest.size_bytes(), manifest.Root()));
  QUADFS_TRY(created->SetManifest(std::move(manifest)));
  return created;
}

Result<OpenObject> ObjectReader::Open(const ObjectId& object, Deadline deadline) {
  // Also finds removed inodes that are remembered: somebody may have them open.
  const auto attributes = QUADFS_TRY(parts_.view.Get(object.inode));
  OpenObject open{object, attributes.size, false, nullptr};
  if (parts_.store.Holds(object)) {
    if (attributes.generation != object.generation) {
      if (const auto manifest = parts_.store.ReadManifest(object); manifest.ok()) {
        open.size_bytes = manifest->size_bytes();
        open.stored = true;
        return open;
      }
    } else {
      open.stored = true;
      return open;
    }
  }
  open.cached = QUADFS_TRY(CacheObjectOf(object, deadline));
  open.size_bytes = open.cached->size_bytes();
  return open;
}

void ObjectReader::WillRead(const OpenObject& open, uint64_t first, uint64_t count) {
  if (open.stored || open.cached == nullptr) return;
  // If the queue is full each block is still asked for when its turn comes.
  (void)parts_.fetcher.EnsureLater(
      open.cached, first, count,
      count <= kReaderRunBlocks ? Fetcher::Priority::kReader : Fetcher::Priority::kReadAhead);
}

/// The store's copy failed: go on with another one, and remember why.
Result<void> ObjectReader::LeaveStore(OpenObject& open, const Error& why, Deadline deadline) {
  if (why.code() != ErrorCode::kNotFound) {
    if (why.code() == ErrorCode::kCorruption) ++corrupt_blocks_;
    MutexLock lock(mutex_);
    problem_ = "store: " + cache::ObjectName(open.object) + ": " + why.ToString();
  }
  open.stored = false;
  auto cached = CacheObjectOf(open.object, deadline);
  if (!cached.ok()) {
    return cached.error().code() == ErrorCode::kNotFound ? why : std::move(cached).error();
  }
  open.cached = std::move(*cached);
  return {};
}

Result<std::vector<std::byte>> ObjectReader::ReadBlock(OpenObject& open, uint64_t index,
                                                       Deadline deadline) {
  std::optional<Error> store_error;
  if (open.stored) {
    auto block = parts_.store.ReadBlock(open.object, index);
    if (block.ok()) return block;
    store_error = block.error();
    QUADFS_TRY(LeaveStore(open, *store_error, deadline));
  }
  for (int attempt = 1;; ++attempt) {
    auto here = parts_.fetcher.Ensure(open.cached, index, 1, Fetcher::Priority::kReader, deadline);
    if (!here.ok()) {
      if (here.error().code() == ErrorCode::kNoSpace) {
        return parts_.fetcher.ReadAround(open.cached, index, deadline);
      }
      // Nobody else has it: then what is wrong with the store's copy is the news.
      if (here.error().code() == ErrorCode::kNotFound && store_error) return *store_error;
      return std::move(here).error();
    }
    auto block = open.cached->ReadBlock(index);
    const bool dropped = !block.ok() && (block.error().code() == ErrorCode::kNotFound ||
                                         block.error().code() == ErrorCode::kCorruption);
    if (!dropped) return block;
    if (block.error().code() == ErrorCode::kCorruption) ++corrupt_blocks_;
    if (attempt == kAttempts) return block;
  }
}

Result<void> ObjectReader::PassBlock(OpenObject& open, uint64_t index, Deadline deadline,
                                     const PieceSink& piece) {
  size_t given = 0;
  if (!open.stored && open.cached->size_bytes() > index * kBlockBytes) {
    const auto length = static_cast<size_t>(
        std::min<uint64_t>(kBlockBytes, open.cached->size_bytes() - index * kBlockBytes));
    const auto arrival =
        parts_.fetcher.AwaitArrival(open.cached, index, Fetcher::Priority::kReader, deadline);
    while (arrival.ok() && *arrival != nullptr && given < length) {
      const auto bytes = (*arrival)->Await(given, length, deadline);
      if (!bytes.ok() || bytes->empty()) break;  // ReadBlock says what is wrong, or has it.
      QUADFS_TRY(piece(*bytes));
      given += bytes->size();
    }
    if (given == length) return {};
  }
  const auto block = QUADFS_TRY(ReadBlock(open, index, deadline));
  return block.size() > given ? piece(std::span(block).subspan(given)) : Result<void>();
}

Result<cache::Manifest> ObjectReader::ManifestOf(OpenObject& open, Deadline deadline) {
  if (open.stored) {
    auto manifest = parts_.store.ReadManifest(open.object);
    if (manifest.ok()) return manifest;
    QUADFS_TRY(LeaveStore(open, manifest.error(), deadline));
  }
  if (const auto manifest = open.cached->manifest()) return *manifest;
  // With the first block, in one round trip; a file of one block has no other way to its manifest.
  if (auto here = parts_.fetcher.Ensure(open.cached, 0, 1, Fetcher::Priority::kReader, deadline);
      !here.ok() && here.error().code() != ErrorCode::kNoSpace) {
    return std::move(here).error();
  }
  if (const auto manifest = open.cached->manifest()) return *manifest;
  QUADFS_TRY(parts_.fetcher.ReadAround(open.cached, 0, deadline));
  if (const auto manifest = open.cached->manifest()) return *manifest;
  return Error(ErrorCode::kUnavailable, "the manifest did not arrive");
}

void ObjectReader::FetchTogether(const std::vector<OpenObject>& objects, Deadline deadline) {
  std::vector<cache::ObjectRef> missing;
  for (const OpenObject& open : objects) {
    if (!open.stored && !open.cached->complete()) missing.push_back(open.cached);
  }
  // What does not come is asked for singly when its turn comes.
  if (missing.size() > 1) {
    (void)parts_.fetcher.CompleteBundle(missing, Fetcher::Priority::kReader, deadline);
  }
}

}  // namespace quadfs::fs
