#pragma once

#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "cache/manifest.h"
#include "fs/data/token_bucket.h"
#include "transport/base/ids.h"
#include "transport/base/result.h"
#include "transport/client.h"

namespace quadfs::fs {

/// Where the write-back queue reads from: a node's cache, or a branch hub's store.
/// Threads: every method may be called concurrently.
class UploadReader {
 public:
  enum class Need : uint8_t {
    kSend,
    kDrop,  ///< Removed, superseded, or not to be passed on: forget it.
    kWait,  ///< Cannot be told now: ask again later.
  };
  virtual ~UploadReader() = default;
  virtual Need NeedOf(const ObjectId& object) = 0;
  virtual uint64_t SizeOf(const ObjectId& object) = 0;
  /// Errors: kNotFound, kStale: it is not here any more.
  virtual Result<cache::Manifest> ManifestOf(const ObjectId& object) = 0;
  virtual Result<std::vector<std::byte>> ReadBlock(const ObjectId& object, uint64_t index) = 0;
  /// The other side has it, verified.
  virtual void Saved(const ObjectId& object) = 0;
  /// It left the queue unsaved (NeedOf said kDrop, or the receiver kStale).
  virtual void Dropped(const ObjectId& object) = 0;
};

/// Sends one object to a hub's store: announce, send what is missing, commit. Each step may be
/// repeated; what arrived before a cut is not sent again. Small objects go in one request.
/// Threads: every method may be called concurrently.
class Uploader {
 public:
  Uploader(transport::Client& client, UploadReader& reader, TokenBucket& bucket)
      : client_(client), reader_(reader), bucket_(bucket) {}

  /// Returns when the hub has it, verified, and its location is in the log. `progress`: bytes sent
  /// now. Errors: kStale (superseded or removed: drop it), kNotFound (not here any more), kNoSpace,
  /// kUnavailable, kTimedOut, kCorruption, kCancelled.
  Result<void> Send(const ObjectId& object, const std::stop_token& stop,
                    const std::function<void(uint64_t bytes)>& progress);

 private:
  using Progress = std::function<void(uint64_t bytes)>;
  static constexpr uint64_t kOneRequestBlocks = 4;  ///< Objects up to this size go in one request.
  static constexpr uint64_t kRunBlocks = 64;        ///< Blocks per PUT of larger ones.

  Result<void> SendWhole(const ObjectId& object, const cache::Manifest& manifest,
                         const std::stop_token& stop, const Progress& progress);
  Result<void> SendRun(const ObjectId& object, const cache::Manifest& manifest, uint64_t first,
                       uint64_t count, const std::stop_token& stop, const Progress& progress);
  Result<void> Put(const std::string& target, std::string_view head, const ObjectId& object,
                   const cache::Manifest& manifest, uint64_t first, uint64_t count,
                   const std::stop_token& stop, const Progress& progress);
  Deadline DeadlineFor(uint64_t bytes) const;

  transport::Client& client_;
  UploadReader& reader_;
  TokenBucket& bucket_;
};

}  // namespace quadfs::fs
