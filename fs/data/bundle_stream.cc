#include "fs/data/bundle_stream.h"

#include <algorithm>

namespace quadfs::fs {
namespace {

void AppendBig(std::string& out, uint64_t number, int bytes) {
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>((number >> shift) & 0xFF));
  }
}

uint64_t ReadBig(std::span<const std::byte> bytes) {
  uint64_t number = 0;
  for (const std::byte byte : bytes) number = (number << 8) | static_cast<uint64_t>(byte);
  return number;
}

}  // namespace

void AppendBundleItem(std::string& out, const ObjectId& object,
                      const Result<std::vector<std::byte>>& content) {
  AppendBig(out, object.inode.value, 8);
  AppendBig(out, object.generation.value, 8);
  if (!content.ok()) {
    AppendBig(out, static_cast<uint64_t>(content.error().code()), 1);
    const auto message = std::string_view(content.error().message()).substr(0, 1024);
    AppendBig(out, message.size(), 4);
    out += message;
    return;
  }
  AppendBig(out, 0, 1);
  AppendBig(out, content->size(), 4);
  out.append(reinterpret_cast<const char*>(content->data()), content->size());
}

Result<void> BundleReader::Feed(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    size_t wanted = kHeaderBytes;
    if (buffer_.size() >= kHeaderBytes) {
      wanted += ReadBig(std::span(buffer_).subspan(17, 4));
    }
    const size_t count = std::min(bytes.size(), wanted - buffer_.size());
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (buffer_.size() < kHeaderBytes) break;
    const uint64_t length = ReadBig(std::span(buffer_).subspan(17, 4));
    if (length > kBlockBytes) {
      return Error(ErrorCode::kCorruption, "an object of a bundle is above its bound");
    }
    if (buffer_.size() < kHeaderBytes + length) continue;
    const std::span<const std::byte> item(buffer_);
    const ObjectId object{InodeId(ReadBig(item.subspan(0, 8))),
                          Generation(ReadBig(item.subspan(8, 8)))};
    const auto code = static_cast<uint32_t>(item[16]);
    const auto content = item.subspan(kHeaderBytes);
    auto taken =
        code == 0 ? sink_(object, std::vector<std::byte>(content.begin(), content.end()))
                  : sink_(object, Error(ErrorCodeFromNumber(code),
                                        std::string(reinterpret_cast<const char*>(content.data()),
                                                    content.size())));
    if (!taken.ok()) return taken;
    buffer_.clear();
  }
  return {};
}

Result<void> BundleReader::Finish() const {
  if (!buffer_.empty()) return Error(ErrorCode::kUnavailable, "the bundle ended inside an object");
  return {};
}

}  // namespace quadfs::fs
