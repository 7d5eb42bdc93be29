#pragma once

#include <string>
#include <vector>

#include "fs/data/cached_bytes.h"
#include "fs/data/write_back.h"
#include "metadata/view.h"

namespace quadfs::fs {

/// Where data is, in the words of the extended attributes: from location rows, subtree totals and
/// the nodes' cache reports. Threads: every method may be called concurrently.
/// Lifetime: view and reports outlive it.
class Locations {
 public:
  Locations(const metadata::View& view, const CachedBytes& cached, CampusId own_campus)
      : view_(view), cached_(cached), own_campus_(own_campus) {}

  SaveState StateOf(const metadata::Attributes& attributes) const;
  /// `own`: this node, whose cache is asked directly, and what it holds of the inode.
  Result<std::string> Json(const metadata::Attributes& attributes,
                           const CachedBytes::Holder& own) const;
  Result<std::string> Campuses(const metadata::Attributes& attributes) const;

 private:
  struct CampusShare {
    CampusId campus;
    uint64_t bytes = 0;
    bool complete = false;
  };
  struct Shares {
    uint64_t bytes = 0;  ///< Of the whole.
    std::vector<CampusShare> campuses;
    std::vector<CachedBytes::Holder> nodes;  ///< Known as holders by the log.
  };
  Result<Shares> SharesOf(const metadata::Attributes& attributes) const;
  std::string NameOf(CampusId campus, NodeId node) const;

  const metadata::View& view_;
  const CachedBytes& cached_;
  const CampusId own_campus_;
};

}  // namespace quadfs::fs
