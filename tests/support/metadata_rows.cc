#include "tests/support/metadata_rows.h"

#include <set>

#include "metadata/format.h"

namespace quadfs::test {

using namespace metadata;  // NOLINT: a test's support file.

Result<std::optional<std::string>> MapRows::Read(const RowKey& key) const {
  const auto found = rows_.find(key);
  if (found == rows_.end()) return std::optional<std::string>();
  return std::optional<std::string>(found->second);
}

Result<void> MapRows::ScanPrefix(const RowKey& prefix, const RowKey& from,
                                 const RowCallback& row) const {
  for (auto next = rows_.lower_bound(from > prefix ? from : prefix);
       next != rows_.end() && next->first.starts_with(prefix); ++next) {
    if (!row(next->first, next->second)) break;
  }
  return {};
}

void MapRows::Set(const RowKey& key, const std::optional<std::string>& value) {
  if (value) {
    rows_.insert_or_assign(key, *value);
  } else {
    rows_.erase(key);
  }
}

void MapRows::Apply(const std::vector<RowChange>& changes) {
  for (const RowChange& change : changes) Set(change.key, change.value);
}

std::map<std::string, std::string> AllRows(const RowReader& rows) {
  std::map<std::string, std::string> all;
  for (const Family family : kAllFamilies) {
    rows.ScanPrefix(FamilyPrefix(family), {},
                    [&](std::string_view key, std::string_view value) {
                      all.emplace(key, value);
                      return true;
                    })
        .value();
  }
  return all;
}

namespace {

struct Scanned {
  std::map<InodeId, Attributes> inodes;
  std::map<std::pair<InodeId, std::string>, InodeId> dentries;
  std::set<std::tuple<InodeId, InodeId, std::string>> links;
  std::map<InodeId, std::vector<Location>> locations;
  std::set<InodeId> tombs;
};

Scanned Scan(const RowReader& rows) {
  Scanned scanned;
  for (const auto& [key, value] : AllRows(rows)) {
    const auto number = ParseNumberKey(key);
    switch (*FamilyOf(key)) {
      case Family::kInode:
        scanned.inodes.emplace(InodeId(*number), DecodeInode(InodeId(*number), value).value());
        break;
      case Family::kDentry: {
        const auto parts = ParseDentryKey(key);
        scanned.dentries.emplace(std::pair(parts->parent, std::string(parts->name)),
                                 DecodeDentry(value).value().inode);
        break;
      }
      case Family::kLinks: {
        const auto parts = ParseLinkKey(key);
        scanned.links.emplace(parts->inode, parts->parent, std::string(parts->name));
        break;
      }
      case Family::kLocation:
        scanned.locations.emplace(InodeId(*number), DecodeLocations(value).value());
        break;
      case Family::kTomb: scanned.tombs.insert(InodeId(*number)); break;
      default: break;
    }
  }
  return scanned;
}

}  // namespace

std::vector<std::string> TreeFaults(const RowReader& rows) {
  const Scanned scanned = Scan(rows);
  std::vector<std::string> faults;
  const auto fault = [&](const std::string& what, InodeId inode) {
    faults.push_back(what + " " + std::to_string(inode.value));
  };
  std::map<InodeId, uint32_t> names;
  std::map<InodeId, uint32_t> subdirectories;
  std::set<InodeId> primaries;
  for (const auto& [place, inode] : scanned.dentries) {
    const auto found = scanned.inodes.find(inode);
    if (found == scanned.inodes.end()) {
      fault("dentry " + place.second + " without inode", inode);
      continue;
    }
    if (!scanned.links.contains({inode, place.first, place.second})) {
      fault("dentry " + place.second + " without link", inode);
    }
    const auto parent = scanned.inodes.find(place.first);
    if (parent == scanned.inodes.end() || parent->second.type != FileType::kDirectory) {
      fault("dentry " + place.second + " in what is no directory", place.first);
    }
    ++names[inode];
    const Attributes& attributes = found->second;
    if (attributes.parent == place.first && attributes.name_hash == NameHash(place.second)) {
      primaries.insert(inode);
    }
    if (attributes.type == FileType::kDirectory) ++subdirectories[place.first];
  }
  for (const auto& [inode, parent, name] : scanned.links) {
    const auto dentry = scanned.dentries.find({parent, name});
    if (dentry == scanned.dentries.end() || dentry->second != inode) fault("stale link", inode);
  }
  for (const auto& [inode, attributes] : scanned.inodes) {
    if (scanned.tombs.contains(inode)) fault("alive and remembered as removed", inode);
    const bool directory = attributes.type == FileType::kDirectory;
    if (directory && attributes.nlink != 2 + subdirectories[inode]) fault("wrong nlink", inode);
    if (inode == kRootInode) continue;
    if (!primaries.contains(inode)) fault("no primary name", inode);
    if (directory ? names[inode] != 1 : names[inode] != attributes.nlink) {
      fault("wrong number of names", inode);
    }
    InodeId current = inode;
    for (size_t depth = 0; depth < 1000 && current != kRootInode; ++depth) {
      const auto next = scanned.inodes.find(current);
      if (next == scanned.inodes.end()) break;
      current = next->second.parent;
    }
    if (current != kRootInode) fault("not below the root", inode);
  }
  return faults;
}

std::map<InodeId, Totals> TotalsFromScratch(const RowReader& rows) {
  const Scanned scanned = Scan(rows);
  std::map<InodeId, Totals> totals;
  const auto add = [&](InodeId directory, const auto& change) {
    for (InodeId current = directory; current;) {
      change(totals[current]);
      const auto next = scanned.inodes.find(current);
      if (next == scanned.inodes.end()) break;
      current = next->second.parent;
    }
  };
  for (const auto& [inode, attributes] : scanned.inodes) {
    if (attributes.type == FileType::kDirectory) {
      add(attributes.parent, [](Totals& total) { ++total.directories; });
      continue;
    }
    std::set<CampusId> campuses;
    if (const auto found = scanned.locations.find(inode); found != scanned.locations.end()) {
      for (const Location& location : found->second) {
        if (location.generation == attributes.generation) campuses.insert(location.campus);
      }
    }
    const uint64_t size = attributes.type == FileType::kRegular ? attributes.size : 0;
    add(attributes.parent, [&](Totals& total) {
      ++total.files;
      total.bytes += size;
      for (const CampusId campus : campuses) {
        if (size > 0) total.campus_bytes[campus] += size;
      }
    });
  }
  for (const auto& [place, inode] : scanned.dentries) {
    if (IsConflictName(place.second)) {
      add(place.first, [](Totals& total) { ++total.conflicts; });
    }
  }
  std::erase_if(totals, [](const auto& one) { return one.second == Totals(); });
  return totals;
}

std::map<InodeId, Totals> StoredTotals(const RowReader& rows) {
  std::map<InodeId, Totals> totals;
  rows.ScanPrefix(FamilyPrefix(Family::kTotal), {},
                  [&](std::string_view key, std::string_view value) {
                    const InodeId directory(*ParseNumberKey(key));
                    if (directory) totals.emplace(directory, DecodeTotals(value).value());
                    return true;
                  })
      .value();
  return totals;
}

}  // namespace quadfs::test
