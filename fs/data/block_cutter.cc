#include "fs/data/block_cutter.h"

#include <algorithm>
#include <utility>

namespace quadfs::fs {
namespace {

constexpr size_t kLengthBytes = 4;

size_t LengthOf(const std::string& prefix) {
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length = (length << 8) | static_cast<unsigned char>(prefix[i]);
  }
  return length;
}

}  // namespace

std::string ManifestPrefix(const cache::Manifest& manifest) {
  const std::string bytes = manifest.Serialize();
  std::string prefix;
  for (int shift = 24; shift >= 0; shift -= 8) {
    prefix.push_back(static_cast<char>((bytes.size() >> shift) & 0xFF));
  }
  return prefix + bytes;
}

Result<std::span<const std::byte>> BlockCutter::TakeManifest(std::span<const std::byte> bytes) {
  const auto append = [&](size_t upto) {
    const size_t count = std::min(bytes.size(), upto - std::min(upto, manifest_.size()));
    manifest_.append(reinterpret_cast<const char*>(bytes.data()), count);
    bytes = bytes.subspan(count);
    return manifest_.size() >= upto;
  };
  if (!append(kLengthBytes)) return bytes;
  const size_t length = LengthOf(manifest_);
  if (length > kMaxManifestBytes) {
    return Error(ErrorCode::kCorruption, "a manifest above its bound was sent");
  }
  if (!append(kLengthBytes + length)) return bytes;
  auto manifest =
      QUADFS_TRY(cache::Manifest::Parse(std::string_view(manifest_).substr(kLengthBytes)));
  if (size_bytes_ && *size_bytes_ != manifest.size_bytes()) {
    return Error(ErrorCode::kCorruption, "the manifest sent is of another size");
  }
  size_bytes_ = manifest.size_bytes();
  if (end_ > manifest.block_count()) {
    return Error(ErrorCode::kCorruption, "the manifest sent has fewer blocks than were asked for");
  }
  manifest_.clear();
  manifest_.shrink_to_fit();
  const auto sink = std::exchange(manifest_sink_, nullptr);
  if (auto taken = sink(std::move(manifest)); !taken.ok()) return std::move(taken).error();
  return bytes;
}

size_t BlockCutter::WantedBytes() const {
  if (!size_bytes_) return kBlockBytes;
  const uint64_t offset = next_ * kBlockBytes;
  return static_cast<size_t>(
      std::min<uint64_t>(kBlockBytes, *size_bytes_ - std::min(*size_bytes_, offset)));
}

Result<void> BlockCutter::Deliver(std::span<const std::byte> block) {
  if (auto taken = sink_(next_, block); !taken.ok()) return taken;
  ++next_;
  return {};
}

Result<void> BlockCutter::DeliverArrived() {
  auto done = Deliver(block_->bytes());
  EndBlock(done.ok());
  return done;
}

void BlockCutter::EndBlock(bool good) {
  if (block_ != nullptr) std::exchange(block_, nullptr)->End(good);
}

Result<void> BlockCutter::Feed(std::span<const std::byte> bytes) {
  if (manifest_sink_) bytes = QUADFS_TRY(TakeManifest(bytes));
  while (!bytes.empty()) {
    const size_t wanted = next_ < end_ ? WantedBytes() : 0;
    if (wanted == 0) return Error(ErrorCode::kCorruption, "more bytes than asked for were sent");
    if (block_ == nullptr && bytes.size() >= wanted) {
      if (auto done = Deliver(bytes.subspan(0, wanted)); !done.ok()) return done;
      bytes = bytes.subspan(wanted);
      continue;
    }
    const bool begins = block_ == nullptr;
    if (begins) block_ = std::make_shared<ArrivingBlock>(wanted);
    bytes = bytes.subspan(block_->Append(bytes));
    if (begins) sink_.Begins(next_, block_);
    if (!block_->full()) break;
    if (auto done = DeliverArrived(); !done.ok()) return done;
  }
  return {};
}

Result<void> BlockCutter::Finish() {
  if (!manifest_sink_ && !size_bytes_ && next_ + 1 == end_ && block_ != nullptr) {
    if (auto done = DeliverArrived(); !done.ok()) return done;
  }
  if (manifest_sink_ || next_ < end_ || block_ != nullptr) {
    return Error(ErrorCode::kUnavailable, "the peer sent fewer bytes than asked for");
  }
  return {};
}

}  // namespace quadfs::fs
