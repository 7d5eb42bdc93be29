/// Packets on their way through one direction of a link: a FIFO in one preallocated buffer.
///
/// A packet is reserved (being read, invisible) or committed (in the queue). Records lie
/// contiguously, so that a device reads into and writes from the ring without a copy; a record
/// that does not fit before the end of the buffer starts again at its beginning.
/// Threads: one thread at a time.
/// Lifetime: spans and pointers handed out are valid until the next Reserve or Pop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quadfs::lab {

class PacketRing {
 public:
  /// The largest record: a segmentation-offload packet of 64 KiB, its headers and the tun header.
  static constexpr size_t kMaxPacketBytes = size_t{68} << 10;

  struct Packet {
    int64_t departed_ns;  ///< When its last bit left the sender's side of the line.
    uint32_t size;        ///< Bytes as read from the device, tun header included.
    uint32_t wire_bytes;  ///< Bytes it takes on the line, as IP packets of at most one MTU.
    uint32_t wire_packets;

    std::span<const std::byte> bytes() const {
      return {reinterpret_cast<const std::byte*>(this + 1), size};
    }
  };

  /// `capacity_bytes`: a multiple of 64; memory is taken from the kernel as it is first used.
  explicit PacketRing(size_t capacity_bytes);
  ~PacketRing();
  PacketRing(const PacketRing&) = delete;
  PacketRing& operator=(const PacketRing&) = delete;

  /// Room for the largest packet; empty if the ring is full.
  std::span<std::byte> Reserve();

  /// Puts what was read into the reserved room at the end of the queue.
  void Commit(const Packet& packet);

  /// The oldest packet, or null.
  const Packet* Front() const;

  /// Drops the oldest packet.
  void Pop();

 private:
  std::byte* buffer_;
  size_t capacity_bytes_;
  size_t write_offset_ = 0;
  size_t read_offset_ = 0;
  size_t wrap_offset_ = 0;  // Where the last record before the wrap ends, if wrapped_.
  bool wrapped_ = false;
};

}  // namespace quadfs::lab
