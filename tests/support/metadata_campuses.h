#pragma once

#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "metadata/codec.h"
#include "metadata/execute.h"
#include "metadata/merge.h"
#include "metadata/state_writer.h"
#include "tests/support/metadata_rows.h"

namespace quadfs::test {

/// Contents, by their root, that an operation's author had before him.
using SeenVersions = std::set<Checksum>;

/// A pending operation as its campus ships it.
struct Shipped {
  metadata::LogEntry entry;
  SeenVersions versions;
};

/// Several campuses with one log at main, all in memory and driven by random numbers: they accept
/// operations, ship them, and apply what main made of them, with shadow rows, as the design says.
class Campuses {
 public:
  /// Changes an entry before main merges it; the mutations of the property test.
  using Forge = std::function<void(const metadata::RowReader& global, metadata::LogEntry& entry)>;

  /// `cut`: campuses lose and regain contact at random; else they take leases.
  Campuses(uint64_t seed, bool cut, Forge forge = {});

  /// Does `count` random steps, then heals everything. The first broken promise; empty: none.
  std::string Run(size_t count);

  const std::map<uint8_t, uint64_t>& verdicts() const { return verdicts_; }
  size_t conflict_names() const;

 private:
  struct Shadow {
    std::optional<std::string> value;
    size_t count = 0;
  };
  struct Campus {
    CampusId id;
    bool connected = true;
    MapRows state;
    metadata::TotalsCache totals;
    std::map<metadata::RowKey, Shadow> shadow;
    std::deque<Shipped> pending;  // Not answered; the first `sent` of them are merged.
    size_t sent = 0;
    size_t position = 0;
    uint64_t next_op = 1;
    uint64_t next_inode = 1;
    bool seen_loop = false;
  };
  struct Merging {
    CampusId campus;
    uint64_t campus_op = 0;
    std::vector<metadata::RowChange> rows;
  };

  void Step();
  std::optional<metadata::Operation> RandomOperation(Campus& campus);
  void Accept(Campus& campus, const metadata::Operation& operation);
  bool TakeLeases(Campus& campus, const metadata::Operation& operation);
  void Ship(Campus& campus, size_t count);
  void Pull(Campus& campus, size_t count);
  void Append(const Shipped& shipped, const std::vector<metadata::RowChange>& rows);
  void WriteState(Campus& campus, const std::vector<metadata::RowChange>& rows);
  void CheckVersions(const Shipped& shipped, const std::vector<metadata::RowChange>& rows);
  void CheckEnd();
  void Fail(const std::string& what);
  uint64_t Below(uint64_t bound) { return random_() % bound; }

  /// Random numbers that repeat with the seed.
  class SeededRandom final : public Random {
   public:
    explicit SeededRandom(uint64_t seed) : engine_(seed) {}
    uint64_t Next() override { return engine_(); }

   private:
    std::mt19937_64 engine_;
  };

  bool cut_;
  Forge forge_;
  std::mt19937_64 random_;
  SeededRandom versions_;
  MapRows global_;
  std::vector<Merging> log_;
  std::deque<Campus> campuses_;
  std::map<InodeId, CampusId> leases_;
  std::map<uint8_t, uint64_t> verdicts_;
  std::set<Checksum> live_;
  uint64_t next_version_ = 1;
  int64_t now_ = 1000;
  std::string failure_;
};

}  // namespace quadfs::test
