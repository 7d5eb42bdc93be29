#include "link_direction.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

namespace quadfs::lab {
namespace {

constexpr int64_t kNsPerS = 1'000'000'000;

/// Holds 50 ms at 10 Gbit/s.
constexpr size_t kRingBytes = size_t{64} << 20;

/// Smaller packets (bare acknowledgements, handshakes) are not damaged.
constexpr size_t kMinCorruptBytes = 1000;

/// Packets taken in a row before those that are due are looked at again.
constexpr int kBurstPackets = 16;

/// A packet due this soon is delivered now: waking up takes longer.
constexpr int64_t kEarlyNs = 20'000;

/// A packet may have waited this long for this process to run, while the line stood idle: as much
/// may be sent at once, so that a busy machine does not make the line slower than it should be.
constexpr int64_t kLateReadNs = 2'000'000;

/// The queue holds one round trip and this much more ...
constexpr int64_t kQueueExtraNs = 10'000'000;
/// ... and on a slow line at least this many bytes.
constexpr uint64_t kMinQueueBytes = uint64_t{96} << 10;

/// Below this rate a train of 64 KiB would occupy the line too long to pass for separate packets.
constexpr uint64_t kMinOffloadBitsPerS = 200'000'000;

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNsPerS + now.tv_nsec;
}

int64_t SerialisationNs(uint64_t bytes, uint64_t rate_bits_per_s) {
  if (rate_bits_per_s == 0) return 0;
  return static_cast<int64_t>(bytes * 8 * static_cast<uint64_t>(kNsPerS) / rate_bits_per_s);
}

}  // namespace

LinkDirection::LinkDirection(TunDevice& source, TunDevice& target, const LinkSettings& settings,
                             uint64_t seed)
    : source_(source),
      target_(target),
      settings_(settings),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      ring_(kRingBytes),
      random_state_(seed) {
  if (wake_fd_ < 0) Fail("eventfd", errno);
}

LinkDirection::~LinkDirection() { close(wake_fd_); }

void LinkDirection::Run() {
  prctl(PR_SET_TIMERSLACK, 1UL);
  while (true) {
    if (is_changed_.exchange(false)) AdoptSettings();
    const int64_t now_ns = NowNs();
    DeliverDue(now_ns);
    if (!TakeArrivals(now_ns)) WaitForWork();
  }
}

void LinkDirection::SetCut(bool cut) {
  is_cut_.store(cut);
  Wake();
}

void LinkDirection::Wake() {
  is_changed_.store(true);
  const uint64_t one = 1;
  // The counter is full only if a wake-up is already pending.
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
}

void LinkDirection::AdoptSettings() {
  rate_bits_per_s_ = settings_.rate_bits_per_s.load();
  const int64_t rtt_ns = settings_.rtt_ns.load();
  delay_ns_ = rtt_ns / 2;
  loss_ = settings_.loss.load();
  corrupt_ = settings_.corrupt.load();
  queue_limit_ns_ =
      std::max(rtt_ns + kQueueExtraNs, SerialisationNs(kMinQueueBytes, rate_bits_per_s_));
  // The line is at most a full queue behind: a change from slow to fast acts at once.
  line_free_ns_ = std::min(line_free_ns_, NowNs() + queue_limit_ns_);
  // Loss and slow lines concern single packets, so each must come as one.
  source_.SetOffload(loss_ == 0 &&
                     (rate_bits_per_s_ == 0 || rate_bits_per_s_ >= kMinOffloadBitsPerS));
}

void LinkDirection::DeliverDue(int64_t now_ns) {
  const int64_t due_ns = now_ns + kEarlyNs - delay_ns_;
  while (const PacketRing::Packet* packet = ring_.Front()) {
    if (packet->departed_ns > due_ns) return;
    if (is_cut_.load(std::memory_order_relaxed)) {
      counters_.cut += packet->wire_packets;
    } else if (target_.Write(packet->bytes())) {
      counters_.bytes += packet->wire_bytes;
      counters_.packets += packet->wire_packets;
    } else {
      counters_.overflowed += packet->wire_packets;
    }
    ring_.Pop();
  }
}

bool LinkDirection::TakeArrivals(int64_t now_ns) {
  std::array<std::byte, PacketRing::kMaxPacketBytes> discarded;
  for (int taken = 0; taken < kBurstPackets; ++taken) {
    const std::span<std::byte> room = ring_.Reserve();
    const bool is_full = room.empty();
    const size_t size = source_.Read(is_full ? std::span<std::byte>(discarded) : room);
    if (size == 0) return false;
    const WireSize wire =
        TunDevice::MeasureWireSize({is_full ? discarded.data() : room.data(), size});
    if (is_cut_.load(std::memory_order_relaxed)) {
      counters_.cut += wire.packets;
      continue;
    }
    if (ByChance(loss_)) {
      counters_.lost += wire.packets;
      continue;
    }
    const auto departed_ns = is_full ? std::nullopt : Depart(wire.bytes, now_ns);
    if (!departed_ns) {
      counters_.overflowed += wire.packets;
      continue;
    }
    // In the payload of a full packet. Its checksum is usually left to the far end (offload), so
    // TCP does not notice: what is above has to.
    if (size > kMinCorruptBytes && ByChance(corrupt_)) {
      room[size - kMinCorruptBytes / 2] ^= std::byte{0x10};
    }
    ring_.Commit({.departed_ns = *departed_ns,
                  .size = static_cast<uint32_t>(size),
                  .wire_bytes = wire.bytes,
                  .wire_packets = wire.packets});
  }
  return true;
}

bool LinkDirection::ByChance(double share) {
  if (share == 0) return false;
  random_state_ += 0x9E3779B97F4A7C15U;  // splitmix64
  uint64_t bits = random_state_;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
  bits ^= bits >> 31;
  return static_cast<double>(bits >> 11) * 0x1p-53 < share;
}

std::optional<int64_t> LinkDirection::Depart(uint32_t wire_bytes, int64_t now_ns) {
  if (line_free_ns_ > now_ns + queue_limit_ns_) return std::nullopt;
  line_free_ns_ =
      std::max(line_free_ns_, now_ns - kLateReadNs) + SerialisationNs(wire_bytes, rate_bits_per_s_);
  return std::max(line_free_ns_, now_ns);
}

void LinkDirection::WaitForWork() {
  std::array<pollfd, 2> waits{{{.fd = source_.fd(), .events = POLLIN, .revents = 0},
                               {.fd = wake_fd_, .events = POLLIN, .revents = 0}}};
  timespec timeout{};
  const timespec* limit = nullptr;
  if (const PacketRing::Packet* packet = ring_.Front()) {
    const int64_t wait_ns =
        std::max<int64_t>(packet->departed_ns + delay_ns_ - kEarlyNs - NowNs(), 0);
    timeout = {.tv_sec = wait_ns / kNsPerS, .tv_nsec = wait_ns % kNsPerS};
    limit = &timeout;
  }
  if (ppoll(waits.data(), waits.size(), limit, nullptr) < 0 && errno != EINTR) Fail("ppoll", errno);
  if ((waits[1].revents & POLLIN) != 0) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t size = read(wake_fd_, &count, sizeof count);
  }
}

}  // namespace quadfs::lab
