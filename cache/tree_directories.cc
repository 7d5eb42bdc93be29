#include "cache/tree_directories.h"

#include <algorithm>

namespace quadfs::cache {
namespace {
constexpr size_t kMaxDepth = 2048;  // More is a loop.
}  // namespace

Result<void> TreeDirectories::Load() {
  MutexLock lock(mutex_);
  nodes_.clear();
  nodes_[kRoot];
  std::optional<Error> failed;
  QUADFS_TRY(index_.Scan(kDirectoryPrefix, [&](std::string_view key, std::string_view value) {
    auto place = DecodePlace(value);
    if (!place.ok()) {
      failed = place.error();
      return false;
    }
    const uint64_t directory = KeyNumberAt(key, kDirectoryPrefix.size());
    nodes_[directory].place = std::move(place).value();
    next_ = std::max(next_, directory + 1);
    return true;
  }));
  if (failed) return *std::move(failed);
  std::vector<std::pair<uint64_t, Place>> places;
  for (const auto& [directory, node] : nodes_) {
    if (directory != kRoot) places.emplace_back(directory, node.place);
  }
  for (const auto& [directory, place] : places) {
    const auto parent = nodes_.find(place.directory);
    if (parent != nodes_.end()) parent->second.children[place.name] = directory;
  }
  const auto next = index_.Get(kNextDirectoryKey);
  if (next.ok()) next_ = std::max(next_, KeyNumberAt(*next, 0));
  return {};
}

std::optional<uint64_t> TreeDirectories::FindLocked(
    const std::vector<std::string>& components) const {
  uint64_t current = kRoot;
  for (const std::string& name : components) {
    const Node& node = nodes_.at(current);
    const auto child = node.children.find(name);
    if (child == node.children.end()) return std::nullopt;
    current = child->second;
  }
  return current;
}

std::optional<uint64_t> TreeDirectories::Find(const std::vector<std::string>& components) const {
  MutexLock lock(mutex_);
  return FindLocked(components);
}

Result<uint64_t> TreeDirectories::AddLocked(uint64_t parent, const std::string& name) {
  const uint64_t directory = next_;
  QUADFS_TRY(index_.Put(kNextDirectoryKey, KeyNumber(directory + 1)));
  const Place place{parent, name};
  QUADFS_TRY(index_.Put(Key(directory), EncodePlace(place)));
  next_ = directory + 1;
  nodes_[directory].place = place;
  nodes_[parent].children[name] = directory;
  return directory;
}

Result<uint64_t> TreeDirectories::FindOrAdd(const std::vector<std::string>& components) {
  MutexLock lock(mutex_);
  uint64_t current = kRoot;
  for (const std::string& name : components) {
    const Node& node = nodes_.at(current);
    const auto child = node.children.find(name);
    current = child != node.children.end() ? child->second : QUADFS_TRY(AddLocked(current, name));
  }
  return current;
}

std::optional<std::vector<std::string>> TreeDirectories::PathOf(uint64_t directory) const {
  MutexLock lock(mutex_);
  std::vector<std::string> components;
  while (directory != kRoot) {
    const auto node = nodes_.find(directory);
    if (node == nodes_.end() || components.size() > kMaxDepth) return std::nullopt;
    components.push_back(node->second.place.name);
    directory = node->second.place.directory;
  }
  std::reverse(components.begin(), components.end());
  return components;
}

std::optional<Place> TreeDirectories::PlaceOf(uint64_t directory) const {
  MutexLock lock(mutex_);
  const auto node = nodes_.find(directory);
  if (node == nodes_.end() || directory == kRoot) return std::nullopt;
  return node->second.place;
}

void TreeDirectories::Unlink(uint64_t directory) {
  const Place& place = nodes_.at(directory).place;
  const auto parent = nodes_.find(place.directory);
  if (parent == nodes_.end()) return;
  const auto child = parent->second.children.find(place.name);
  if (child != parent->second.children.end() && child->second == directory) {
    parent->second.children.erase(child);
  }
}

Result<void> TreeDirectories::Moved(uint64_t directory, const Place& to,
                                    const std::string& intent_key) {
  MutexLock lock(mutex_);
  QUADFS_TRY(index_.Move(intent_key, Key(directory), EncodePlace(to)));
  if (nodes_.find(directory) == nodes_.end()) return {};
  Unlink(directory);
  nodes_.at(directory).place = to;
  nodes_[to.directory].children[to.name] = directory;
  return {};
}

Result<void> TreeDirectories::Removed(uint64_t directory) {
  MutexLock lock(mutex_);
  if (directory == kRoot || nodes_.find(directory) == nodes_.end()) return {};
  Unlink(directory);
  std::vector<uint64_t> gone{directory};
  while (!gone.empty()) {
    const uint64_t current = gone.back();
    gone.pop_back();
    const auto node = nodes_.find(current);
    if (node == nodes_.end()) continue;
    for (const auto& [name, child] : node->second.children) gone.push_back(child);
    nodes_.erase(node);
    QUADFS_TRY(index_.Erase(Key(current)));
  }
  return {};
}

}  // namespace quadfs::cache
