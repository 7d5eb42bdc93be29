/// One TUN device in a network namespace: IP packets in and out, with segmentation offload.
///
/// With offload on, the kernel hands over TCP packets of up to 64 KiB that stand for a train of
/// packets of one MTU, and takes such packets back: an order of magnitude fewer system calls.
/// Threads: Read and SetOffload by one thread, Write by one other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace quadfs::lab {

/// What a packet as read from the device amounts to on a line.
struct WireSize {
  uint32_t bytes;
  uint32_t packets;
};

class TunDevice {
 public:
  /// Creates the device in the namespace that `netns_path` names (such as /proc/PID/ns/net) and
  /// leaves the calling thread there. Ends the program with a message if that fails.
  TunDevice(const std::string& netns_path, const std::string& name);
  ~TunDevice();
  TunDevice(const TunDevice&) = delete;
  TunDevice& operator=(const TunDevice&) = delete;

  int fd() const { return fd_; }

  /// Reads one packet, tun header included. Returns 0 if none waits.
  size_t Read(std::span<std::byte> room);

  /// Hands a packet, as Read gave it, to the kernel. Returns false if the kernel refused it.
  bool Write(std::span<const std::byte> packet);

  /// Whether the kernel may hand over trains as one packet. No: each packet has at most one MTU.
  void SetOffload(bool on);

  /// The size on the line of a packet that Read gave.
  static WireSize MeasureWireSize(std::span<const std::byte> packet);

 private:
  int fd_;
};

/// Prints "quadfs_lab_forwarder: WHAT: ERROR" and ends the program.
[[noreturn]] void Fail(const std::string& what, int error_number);

}  // namespace quadfs::lab
