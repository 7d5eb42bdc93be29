#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "fs/data/write_back.h"
#include "transport/base/clock.h"
#include "transport/base/ids.h"

namespace quadfs::fs {

/// The write-back queue in memory: which object is sent next. It knows no disk and no network.
/// Threads: one at a time.
class WriteBackQueue {
 public:
  struct Item {
    ObjectId object;
    uint64_t size_bytes = 0, sent_bytes = 0;
    uint32_t attempts = 0;
    std::string problem;
    bool active = false;
  };

  explicit WriteBackQueue(uint64_t large_bytes) : large_bytes_(large_bytes) {}

  /// Adds it at the end; nothing if it is there. Older versions of the inode that are not being
  /// sent go: their numbers are added to `superseded`.
  bool Add(uint64_t number, const ObjectId& object, uint64_t size_bytes,
           std::vector<std::pair<uint64_t, ObjectId>>& superseded);
  /// The next one to send, marked active. `large_too`: files of large_bytes or more as well.
  std::optional<uint64_t> Take(Clock::TimePoint now, bool large_too);
  /// When Take may find something that it does not find now.
  std::optional<Clock::TimePoint> NextDue() const;
  void Later(uint64_t number, Clock::TimePoint at);  ///< Not sent: again at `at`.
  void Hurry(InodeId inode);                         ///< What waits of that inode is ready.
  void Remove(uint64_t number);

  Item* Find(uint64_t number);
  bool Contains(const ObjectId& object) const;
  bool Holds(std::optional<InodeId> inode) const;
  bool IsLarge(const Item& item) const { return item.size_bytes >= large_bytes_; }
  const std::map<uint64_t, Item>& items() const { return items_; }
  uint64_t queued_bytes() const { return queued_bytes_; }

 private:
  const uint64_t large_bytes_;
  std::map<uint64_t, Item> items_;  ///< By number: the order of arrival.
  std::unordered_map<InodeId, std::set<uint64_t>> by_inode_;
  std::set<uint64_t> small_, large_;  ///< Ready to be sent.
  std::multimap<Clock::TimePoint, uint64_t> later_;
  uint64_t queued_bytes_ = 0;
};

}  // namespace quadfs::fs
