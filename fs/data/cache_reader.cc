#include "fs/data/cache_reader.h"

namespace quadfs::fs {

UploadReader::Need CacheReader::NeedOf(const ObjectId& object) {
  const auto found = cache_.Find(object);
  if (!found.ok()) {
    // Only "not here" ends it; an index that cannot be read now says nothing.
    return found.error().code() == ErrorCode::kNotFound ? Need::kDrop : Need::kWait;
  }
  if (!(*found)->unsaved()) return Need::kDrop;
  // The hub cannot take what it has not heard of, and may refuse what is shown here.
  if (!confirm_().ok()) return Need::kWait;
  const auto fork = view_.ForkOf(object);
  if (!fork.ok()) return Need::kWait;
  if (*fork) return Carry(**found, **fork).ok() ? Need::kDrop : Need::kWait;
  const auto attributes = view_.Get(object.inode);
  if (!attributes.ok()) {
    // Its creation may not have reached this replica after a rebuild, so "unknown" is not
    // "removed".
    return attributes.error().code() == ErrorCode::kNotFound ? Need::kSend : Need::kWait;
  }
  if (attributes->nlink == 0 || attributes->generation > object.generation) return Need::kDrop;
  return Need::kSend;
}

/// Copies what lost a merge under the inode that has it now. Repeated after a crash, it goes on.
/// Errors: those of the cache (kStale: it is open and was changed since; its next version goes
/// the same way), kNotFound (the copy is not known here yet).
Result<void> CacheReader::Carry(cache::CacheObject& object, InodeId carrier) {
  const auto row = QUADFS_TRY(view_.Get(carrier));
  const ObjectId copy{carrier, object.id().generation};
  if (row.nlink > 0 && row.generation == copy.generation) {
    const auto manifest = object.manifest();
    if (manifest == nullptr) return Error(ErrorCode::kStale, "the version has no manifest");
    const auto target = QUADFS_TRY(cache_.FindOrCreate(copy, row.size, row.root));
    QUADFS_TRY(target->SetManifest(*manifest));
    for (uint64_t index = 0; index < manifest->block_count(); ++index) {
      if (target->HasBlock(index)) continue;
      const auto block = QUADFS_TRY(object.ReadBlock(index));
      QUADFS_TRY(target->StoreBlock(index, block));
    }
    QUADFS_TRY(target->MarkUnsaved());
    QUADFS_TRY(target->Sync());
    QUADFS_TRY(on_carried_(copy));
  } else if (row.nlink > 0 && row.generation < copy.generation) {
    return Error(ErrorCode::kNotFound, "the version of the copy is not known here yet");
  }
  return object.MarkSaved();
}

uint64_t CacheReader::SizeOf(const ObjectId& object) {
  const auto found = cache_.Find(object);
  return found.ok() ? (*found)->size_bytes() : 0;
}

Result<cache::Manifest> CacheReader::ManifestOf(const ObjectId& object) {
  const auto found = QUADFS_TRY(cache_.Find(object));
  const auto manifest = found->manifest();
  if (manifest == nullptr) return Error(ErrorCode::kNotFound, "no manifest of the object is here");
  return *manifest;
}

Result<std::vector<std::byte>> CacheReader::ReadBlock(const ObjectId& object, uint64_t index) {
  return QUADFS_TRY(cache_.Find(object))->ReadBlock(index);
}

void CacheReader::Saved(const ObjectId& object) {
  // If the mark cannot be written the object stays unsaved and is queued again at the next start.
  if (const auto found = cache_.Find(object); found.ok()) (void)(*found)->MarkSaved();
}

void CacheReader::Dropped(const ObjectId& object) {
  const auto found = cache_.Find(object);
  if (!found.ok() || !(*found)->unsaved() || (*found)->dirty()) return;
  const auto fork = view_.ForkOf(object);
  if (!fork.ok() || (*fork && !Carry(**found, **fork).ok())) return;  // Queued at the next start.
  const auto attributes = view_.Get(object.inode);
  if (attributes.ok() && (attributes->nlink == 0 || attributes->generation > object.generation)) {
    (*found)->Discard();
  }
}

}  // namespace quadfs::fs
