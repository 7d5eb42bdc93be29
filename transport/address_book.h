#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "transport/base/clock.h"
#include "transport/base/mutex.h"

namespace quadfs::transport {

/// The addresses of one hub and how they fared. The one that worked last comes first; one that
/// failed is left alone for a while, longer each time. It does no I/O.
/// Threads: every method may be called concurrently.
class AddressBook {
 public:
  using TimePoint = Clock::TimePoint;
  static constexpr std::chrono::milliseconds kFirstBackOff{50};
  static constexpr std::chrono::milliseconds kMaxBackOff{2000};

  explicit AddressBook(std::vector<std::string> addresses);

  /// Which to try now, best first; empty while all are in back-off. `connected`: one to which the
  /// caller has an open connection, tried first whatever others say of it; kNone if none.
  static constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> Order(size_t connected, TimePoint now) const;
  const std::string& address(size_t index) const { return entries_[index].address; }

  void Worked(size_t index);
  void Failed(size_t index, const std::string& why, TimePoint now);
  void Reset();
  /// "10.1.2.3:7440: connection refused; hub-b:7440: could not resolve the name".
  std::string Failures() const;

 private:
  struct Entry {
    std::string address;  ///< Constant.
    std::string why = "not tried";
    TimePoint not_before{};
    std::chrono::milliseconds back_off{0};
  };

  mutable Mutex mutex_;
  std::vector<Entry> entries_;  // All but `address` guarded by mutex_; the size never changes.
  size_t preferred_ QUADFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace quadfs::transport
