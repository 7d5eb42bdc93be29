#include "fs/hub/store_reader.h"

#include <algorithm>

#include "fs/hub/archive_policy.h"

namespace quadfs::fs {

UploadReader::Need StoreReader::NeedOf(const ObjectId& object) {
  const auto attributes = view_.Get(object.inode);
  if (!attributes.ok()) {
    return attributes.error().code() == ErrorCode::kNotFound ? Need::kDrop : Need::kWait;
  }
  if (attributes->nlink == 0 || attributes->generation > object.generation) return Need::kDrop;
  if (!store_.Holds(object) || !IsArchived(view_, object.inode)) return Need::kDrop;
  const auto locations = view_.Locations(object.inode);
  const bool archived =
      locations.ok() &&
      std::any_of(locations->begin(), locations->end(), [&](const metadata::Location& location) {
        return location.campus == kMainCampus && !location.node && location.verified &&
               location.generation == object.generation;
      });
  return archived ? Need::kDrop : Need::kSend;
}

uint64_t StoreReader::SizeOf(const ObjectId& object) {
  const auto attributes = view_.Get(object.inode);
  return attributes.ok() ? attributes->size : 0;
}

Result<cache::Manifest> StoreReader::WantedManifest(const ObjectId& object, Deadline deadline) {
  auto open = QUADFS_TRY(local_.Open(object, deadline));
  return local_.ManifestOf(open, deadline);
}

Result<std::vector<std::byte>> StoreReader::WantedBlock(const ObjectId& object, uint64_t index,
                                                        Deadline deadline) {
  auto open = QUADFS_TRY(local_.Open(object, deadline));
  local_.WillRead(open, index, 8);  // Some ahead, as the want goes on.
  return local_.ReadBlock(open, index, deadline);
}

}  // namespace quadfs::fs
