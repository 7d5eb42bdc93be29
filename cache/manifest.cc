#include "cache/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdio>

#include "cache/file_io.h"
#include "cache/row_codec.h"

namespace quadfs::cache {
namespace {

// On disk and on the wire: frozen. A new layout takes a new version.
constexpr std::string_view kRootMagic = "QFRT";
constexpr std::string_view kManifestMagic = "QFMF";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 4 + 4 + 8;
constexpr size_t kSumBytes = 16;
constexpr uint64_t kLargestFile = uint64_t{1} << 62;

void PutHeader(RowWriter& out, std::string_view magic, uint64_t size_bytes) {
  out.Raw(magic);
  out.U32(kVersion);
  out.U64(size_bytes);
}

Checksum ZeroBlockChecksum() {
  static const Checksum checksum = ChecksumOf(std::vector<std::byte>(kBlockBytes));
  return checksum;
}

// Walks the data extents of a sparse file, so that holes cost nothing.
class ExtentCursor {
 public:
  ExtentCursor(int fd, uint64_t size_bytes) : fd_(fd) {
    struct stat status {};
    sparse_ =
        ::fstat(fd, &status) == 0 && static_cast<uint64_t>(status.st_blocks) * 512 < size_bytes;
  }
  /// True if [begin, end) surely holds no data.
  bool IsHole(uint64_t begin, uint64_t end) {
    if (!sparse_) return false;
    if (begin >= next_data_ && begin < next_hole_) return false;
    if (begin >= next_hole_ || begin < searched_) Search(begin);
    return end <= next_data_;
  }

 private:
  void Search(uint64_t from) {
    searched_ = from;
    const off_t start = ::lseek(fd_, static_cast<off_t>(from), SEEK_DATA);
    if (start < 0) {
      sparse_ = errno == ENXIO;  // Nothing but a hole up to the end; else: cannot tell.
      next_data_ = next_hole_ = ~uint64_t{0};
      return;
    }
    const off_t stop = ::lseek(fd_, start, SEEK_HOLE);
    next_data_ = static_cast<uint64_t>(start);
    next_hole_ = stop < 0 ? ~uint64_t{0} : static_cast<uint64_t>(stop);
  }
  int fd_;
  bool sparse_ = false;
  uint64_t searched_ = 0, next_data_ = 0, next_hole_ = 0;
};

}  // namespace

Manifest::Manifest(uint64_t size_bytes, std::vector<Checksum> blocks)
    : size_bytes_(size_bytes), blocks_(std::move(blocks)) {
  assert(blocks_.size() == BlockCount(size_bytes));
}

Manifest Manifest::Of(std::span<const std::byte> content) {
  std::vector<Checksum> blocks;
  blocks.reserve(BlockCount(content.size()));
  for (size_t offset = 0; offset < content.size(); offset += kBlockBytes) {
    blocks.push_back(ChecksumOf(
        content.subspan(offset, std::min<size_t>(kBlockBytes, content.size() - offset))));
  }
  return Manifest(content.size(), std::move(blocks));
}

Result<Manifest> Manifest::OfFile(int fd, uint64_t size_bytes) {
  std::vector<Checksum> blocks;
  blocks.reserve(BlockCount(size_bytes));
  ::posix_fadvise(fd, 0, static_cast<off_t>(size_bytes), POSIX_FADV_SEQUENTIAL);
  ExtentCursor extents(fd, size_bytes);
  std::vector<std::byte> buffer(std::min(kBlockBytes, size_bytes));
  for (uint64_t offset = 0; offset < size_bytes; offset += kBlockBytes) {
    const uint64_t length = std::min(kBlockBytes, size_bytes - offset);
    if (length == kBlockBytes && extents.IsHole(offset, offset + length)) {
      blocks.push_back(ZeroBlockChecksum());
      continue;
    }
    const std::span<std::byte> block(buffer.data(), length);
    const uint64_t got = QUADFS_TRY(ReadAt(fd, block, offset));
    if (got < length) return Error(ErrorCode::kStale, "the file became shorter while it was read");
    blocks.push_back(ChecksumOf(block));
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0) return ErrorFromErrno(errno, "stat of a file to be checked");
  if (static_cast<uint64_t>(status.st_size) < size_bytes) {
    return Error(ErrorCode::kStale, "the file is shorter than the version to be checked");
  }
  return Manifest(size_bytes, std::move(blocks));
}

uint64_t Manifest::BlockLength(uint64_t index) const {
  const uint64_t offset = index * kBlockBytes;
  return offset >= size_bytes_ ? 0 : std::min(kBlockBytes, size_bytes_ - offset);
}

Checksum Manifest::Root() const {
  RowWriter out;
  PutHeader(out, kRootMagic, size_bytes_);
  for (const Checksum& block : blocks_) out.Sum(block);
  return ChecksumOf(AsBytes(out.bytes()));
}

bool Manifest::Matches(uint64_t index, std::span<const std::byte> block) const {
  return index < blocks_.size() && block.size() == BlockLength(index) &&
         ChecksumOf(block) == blocks_[index];
}

std::string Manifest::Serialize() const {
  RowWriter out;
  PutHeader(out, kManifestMagic, size_bytes_);
  for (const Checksum& block : blocks_) out.Sum(block);
  return std::move(out).Finish();
}

Result<Manifest> Manifest::Parse(std::string_view bytes) {
  RowReader in = RowReader::Checked(bytes);
  if (!in.ok() || in.Raw(4) != kManifestMagic) {
    return Error(ErrorCode::kCorruption, "damaged manifest: fetch it again");
  }
  if (const uint32_t version = in.U32(); version != kVersion) {
    return Error(ErrorCode::kInvalidArgument,
                 "manifest of format " + std::to_string(version) + ": update quadfs");
  }
  const uint64_t size_bytes = in.U64();
  if (!in.ok() || size_bytes > kLargestFile || in.left() != BlockCount(size_bytes) * kSumBytes) {
    return Error(ErrorCode::kCorruption, "manifest of a wrong length: fetch it again");
  }
  std::vector<Checksum> blocks(BlockCount(size_bytes));
  for (Checksum& block : blocks) block = in.Sum();
  return Manifest(size_bytes, std::move(blocks));
}

std::string ObjectName(const ObjectId& object) {
  char name[40];
  std::snprintf(name, sizeof name, "%016llx.%016llx",
                static_cast<unsigned long long>(object.inode.value),        // NOLINT
                static_cast<unsigned long long>(object.generation.value));  // NOLINT
  return name;
}

Result<ObjectId> ParseObjectName(std::string_view name) {
  const auto wrong = [&] {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + std::string(name.substr(0, 64)) + "' is no object name");
  };
  if (name.size() != 33 || name[16] != '.') return wrong();
  uint64_t numbers[2] = {0, 0};
  for (size_t i = 0; i < name.size(); ++i) {
    if (i == 16) continue;
    const char c = name[i];
    uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint64_t>(c - 'a' + 10);
    } else {
      return wrong();
    }
    uint64_t& number = numbers[i > 16 ? 1 : 0];
    number = number << 4 | digit;
  }
  return ObjectId{InodeId(numbers[0]), Generation(numbers[1])};
}

}  // namespace quadfs::cache
