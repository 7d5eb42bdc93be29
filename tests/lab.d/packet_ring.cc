#include "packet_ring.h"

#include <sys/mman.h>

#include <cassert>
#include <new>

namespace quadfs::lab {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kRoomBytes = sizeof(PacketRing::Packet) + PacketRing::kMaxPacketBytes;

size_t RecordBytes(uint32_t size) {
  return (sizeof(PacketRing::Packet) + size + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

PacketRing::PacketRing(size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {
  assert(capacity_bytes % kAlignment == 0 && capacity_bytes > 2 * kRoomBytes);
  void* memory = mmap(nullptr, capacity_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  buffer_ = static_cast<std::byte*>(memory);
}

PacketRing::~PacketRing() { munmap(buffer_, capacity_bytes_); }

std::span<std::byte> PacketRing::Reserve() {
  if (!wrapped_ && write_offset_ == read_offset_) {
    write_offset_ = read_offset_ = 0;  // Empty: stay in the part that is warm in the CPU's caches.
  }
  if (!wrapped_ && capacity_bytes_ - write_offset_ < kRoomBytes) {
    if (read_offset_ <= kRoomBytes) return {};
    wrap_offset_ = write_offset_;
    write_offset_ = 0;
    wrapped_ = true;
  }
  if (wrapped_ && read_offset_ - write_offset_ <= kRoomBytes) return {};
  return {buffer_ + write_offset_ + sizeof(Packet), kMaxPacketBytes};
}

void PacketRing::Commit(const Packet& packet) {
  assert(packet.size <= kMaxPacketBytes);
  new (buffer_ + write_offset_) Packet(packet);
  write_offset_ += RecordBytes(packet.size);
}

const PacketRing::Packet* PacketRing::Front() const {
  if (!wrapped_ && read_offset_ == write_offset_) return nullptr;
  return std::launder(reinterpret_cast<const Packet*>(buffer_ + read_offset_));
}

void PacketRing::Pop() {
  const Packet* packet = Front();
  assert(packet != nullptr);
  read_offset_ += RecordBytes(packet->size);
  if (wrapped_ && read_offset_ == wrap_offset_) {
    read_offset_ = 0;
    wrapped_ = false;
  }
}

}  // namespace quadfs::lab
