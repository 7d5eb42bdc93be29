#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "metadata/operation.h"
#include "metadata/types.h"
#include "transport/base/error.h"

namespace quadfs::metadata {

/// What one applied entry changed, in words a kernel cache, an archive or a fetcher can act on.
struct Change {
  SequenceNumber view;
  NodeId origin;     ///< The node whose operation it was; 0: none (a fact, a hub).
  bool own = false;  ///< It was this node's own operation: its kernel knows already.
  std::vector<std::pair<InodeId, std::string>> dentries;  ///< Names that appeared, went or changed.
  std::vector<InodeId> attributes;  ///< Inodes whose row changed in any way (also removed ones).
  std::vector<InodeId> contents;    ///< Of these, the ones whose generation changed.
  std::vector<InodeId> removed;     ///< Of these, the ones without any name left.
  std::vector<InodeId> locations;   ///< Inodes whose holders changed.
  std::vector<InodeId> xattrs;      ///< Inodes whose extended attributes changed.
};

/// A message of another module that rides on the standing streams between hub and client.
struct Message {
  uint32_t kind = 0;  ///< See fs/data/messages.h.
  CampusId campus;    ///< The sender.
  NodeId node;        ///< 0: the campus's hub.
  std::string payload;
};

/// Told by a replica. Calls come in order from one thread that holds no lock; a call must be short
/// (queue the work) and must not wait for an operation of the same replica.
class ChangeListener {
 public:
  virtual ~ChangeListener() = default;
  virtual void OnChange(const Change& change) = 0;
  /// The replica was rebuilt: anything may have changed.
  virtual void OnReset() = 0;
  /// A message from the hub (at a node), from main (at a hub) or from a client (at a hub).
  virtual void OnMessage(const Message& message) = 0;
  /// At a node: the hub refused what this node had done by itself and programs have seen. The rows
  /// are the hub's again.
  virtual void OnRefused(const Operation& operation, const Error& why) {
    (void)operation;
    (void)why;
  }
  /// At a node or branch hub: its upstream stream came up or went down. At a hub: nothing.
  virtual void OnLink(bool connected) = 0;
};

}  // namespace quadfs::metadata
