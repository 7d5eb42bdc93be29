#pragma once

#include "metadata/operation.h"
#include "metadata/tree_edit.h"
#include "transport/base/result.h"

namespace quadfs::metadata {

// One function per operation, one file each. They check what the system call would check and
// change `tree`; errors are those of the call.
Result<OpResult> ExecuteCreate(TreeEdit& tree, const Operation& op);
Result<OpResult> ExecuteLink(TreeEdit& tree, const Operation& op);
Result<OpResult> ExecuteUnlink(TreeEdit& tree, const Operation& op);
Result<OpResult> ExecuteRmdir(TreeEdit& tree, const Operation& op);
Result<OpResult> ExecuteRename(TreeEdit& tree, const Operation& op);
Result<OpResult> ExecuteSetAttributes(TreeEdit& tree, const Operation& op);
Result<OpResult> ExecuteSetXattr(TreeEdit& tree, const Operation& op);
Result<OpResult> ExecuteRemoveXattr(TreeEdit& tree, const Operation& op);
Result<OpResult> ExecutePublish(TreeEdit& tree, const Operation& op, CampusId executing);
Result<OpResult> ExecuteLocate(TreeEdit& tree, const Operation& op);
Result<OpResult> ExecuteMember(TreeEdit& tree, const Operation& op);

/// The content of a publish becomes current in `attributes`, and its holder the first of it; what
/// held the version before is kept for those who still read it, older ones are forgotten. Puts
/// the inode. `before`: the version it replaces.
Result<void> ApplyPublish(TreeEdit& tree, Attributes& attributes, const Operation& op,
                          Generation before, CampusId executing);
/// The attributes of a new inode under `parent`, as the operation and the parent's set-gid say.
Attributes NewAttributes(const Attributes& parent, const Operation& op);
/// The fields that set_mask names, set-id rules included; capability and ctime not.
void ApplyAttributes(Attributes& attributes, const Operation& op);

}  // namespace quadfs::metadata
