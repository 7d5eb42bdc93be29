#include "tun_device.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace quadfs::lab {
namespace {

/// What IFF_VNET_HDR puts before each packet: struct virtio_net_hdr, whose own header is not C++.
struct TunHeader {
  uint8_t flags;
  uint8_t train_type;
  uint16_t header_bytes_hint;
  uint16_t segment_bytes;  ///< Payload of each packet of a train; 0: a single packet.
  uint16_t checksum_start;
  uint16_t checksum_offset;
};
static_assert(sizeof(TunHeader) == 10);

}  // namespace

void Fail(const std::string& what, int error_number) {
  std::fprintf(stderr, "quadfs_lab_forwarder: %s: %s\n", what.c_str(), std::strerror(error_number));
  std::exit(1);
}

TunDevice::TunDevice(const std::string& netns_path, const std::string& name) {
  const int netns_fd = open(netns_path.c_str(), O_RDONLY | O_CLOEXEC);
  if (netns_fd < 0) Fail(netns_path, errno);
  if (setns(netns_fd, CLONE_NEWNET) != 0) Fail("entering " + netns_path, errno);
  close(netns_fd);

  fd_ = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd_ < 0) Fail("/dev/net/tun", errno);
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(fd_, TUNSETIFF, &request) != 0) Fail("creating " + name, errno);
}

TunDevice::~TunDevice() { close(fd_); }

size_t TunDevice::Read(std::span<std::byte> room) {
  const ssize_t size = read(fd_, room.data(), room.size());
  // EAGAIN: nothing waits. Anything else (the device is down, being removed) is no packet either.
  return size > 0 ? static_cast<size_t>(size) : 0;
}

bool TunDevice::Write(std::span<const std::byte> packet) {
  return write(fd_, packet.data(), packet.size()) == static_cast<ssize_t>(packet.size());
}

void TunDevice::SetOffload(bool on) {
  const unsigned flags = on ? TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN : 0U;
  if (ioctl(fd_, TUNSETOFFLOAD, flags) != 0) Fail("setting segmentation offload", errno);
}

WireSize TunDevice::MeasureWireSize(std::span<const std::byte> packet) {
  TunHeader header{};
  if (packet.size() < sizeof header) return {.bytes = 0, .packets = 0};
  std::memcpy(&header, packet.data(), sizeof header);
  const std::span<const std::byte> ip = packet.subspan(sizeof header);
  const auto ip_bytes = static_cast<uint32_t>(ip.size());
  const WireSize single{.bytes = ip_bytes, .packets = 1};
  if (header.segment_bytes == 0) return single;

  // A train is TCP, whose header begins where its checksum does and tells its own length in words
  // of 4 bytes.
  const size_t length_offset = header.checksum_start + 12U;
  if (length_offset >= ip.size()) return single;
  const uint32_t header_bytes =
      header.checksum_start + (std::to_integer<uint32_t>(ip[length_offset]) >> 4) * 4;
  if (header_bytes >= ip_bytes) return single;
  const uint32_t payload_bytes = ip_bytes - header_bytes;
  const uint32_t packets = (payload_bytes + header.segment_bytes - 1U) / header.segment_bytes;
  return {.bytes = payload_bytes + packets * header_bytes, .packets = packets};
}

}  // namespace quadfs::lab
