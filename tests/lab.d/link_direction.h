/// One direction of a link: takes packets from one device and gives them to the other later.
///
/// The line is modelled in this order: loss, the sender's bounded queue, serialisation at the
/// line's rate, propagation. A cut drops what arrives and what is under way. Packets keep their
/// order, also when the delay is changed while they are under way.
/// Threads: Run by one thread; everything else by any thread at any time.
/// Lifetime: both devices and the settings outlive it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "packet_ring.h"
#include "tun_device.h"

namespace quadfs::lab {

/// What the two directions of a link have in common; may be changed at any time.
struct LinkSettings {
  std::atomic<uint64_t> rate_bits_per_s{1'000'000'000};  ///< 0: as fast as it goes.
  std::atomic<int64_t> rtt_ns{5'000'000};                ///< Half of it each way.
  std::atomic<double> loss{0};                           ///< Share of packets dropped, 0 to 1.
  std::atomic<double> corrupt{0};                        ///< Share of packets with a flipped bit.
};

struct LinkCounters {
  std::atomic<uint64_t> bytes{0};       ///< IP bytes delivered at the far side.
  std::atomic<uint64_t> packets{0};     ///< Packets delivered.
  std::atomic<uint64_t> lost{0};        ///< Packets dropped by chance.
  std::atomic<uint64_t> overflowed{0};  ///< Packets dropped because the queue was full.
  std::atomic<uint64_t> cut{0};         ///< Packets dropped because the direction was cut.
};

class LinkDirection {
 public:
  /// `seed`: of the packet loss.
  LinkDirection(TunDevice& source, TunDevice& target, const LinkSettings& settings, uint64_t seed);
  ~LinkDirection();

  /// Forwards packets; never returns.
  [[noreturn]] void Run();

  void SetCut(bool cut);
  bool is_cut() const { return is_cut_.load(); }

  /// Makes a change of the settings take effect on the packets under way.
  void Wake();

  const LinkCounters& counters() const { return counters_; }

 private:
  void AdoptSettings();
  void DeliverDue(int64_t now_ns);
  /// Returns whether more packets may be waiting at the source.
  bool TakeArrivals(int64_t now_ns);
  /// True for that share of the calls.
  bool ByChance(double share);
  /// When the last bit of a packet is on the line, or nothing if the queue is full.
  std::optional<int64_t> Depart(uint32_t wire_bytes, int64_t now_ns);
  void WaitForWork();

  TunDevice& source_;
  TunDevice& target_;
  const LinkSettings& settings_;
  std::atomic<bool> is_cut_{false};
  std::atomic<bool> is_changed_{true};
  int wake_fd_;
  LinkCounters counters_;

  // Of the thread in Run.
  PacketRing ring_;
  uint64_t random_state_;
  uint64_t rate_bits_per_s_ = 0;
  int64_t delay_ns_ = 0;
  int64_t queue_limit_ns_ = 0;
  double loss_ = 0;
  double corrupt_ = 0;
  int64_t line_free_ns_ = 0;  // When the line has sent all that has departed.
};

}  // namespace quadfs::lab
