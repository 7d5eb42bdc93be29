#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "transport/base/checksum.h"
#include "transport/base/result.h"
#include "transport/client.h"
#include "transport/server.h"

namespace quadfs::metadata {

/// Types of the frames on the standing streams. The numbers travel: frozen.
enum class FrameType : uint8_t {
  kEntries = 1,            ///< wire::EntryBatch.
  kHeartbeat = 2,          ///< wire::Heartbeat, each 200 ms.
  kMessage = 3,            ///< wire::SideMessage.
  kRecall = 4,             ///< wire::DirectoryList: give these leases back.
  kStart = 5,              ///< wire::StreamStart, first of all.
  kRecallDelegations = 6,  ///< wire::DelegationList: give these back.
  kFlushDemand = 7,        ///< wire::FlushDemand: send what you did by yourself.
  kSnapshotHead = 16,
  kRows = 17,
  kSnapshotEnd = 18,
};

/// Verbs of wire::Lock. Frozen.
inline constexpr uint32_t kLockVerbLock = 1;
inline constexpr uint32_t kLockVerbTest = 2;
inline constexpr uint32_t kLockVerbReleaseOwner = 3;
inline constexpr uint32_t kLockVerbReleaseNode = 4;  ///< A hub's: a node of its campus is lost.

inline constexpr size_t kMaxBatchOperations = 1024;
inline constexpr size_t kMaxBatchBytes = size_t{1} << 20;

/// Calls a service with one protobuf message and parses its answer into another.
/// Errors: the service's, kCorruption if the answer is no such message.
template <typename Answer, typename Message>
Result<Answer> CallService(transport::Client& client, const std::string& path,
                           const Message& message, Deadline deadline) {
  std::string body;
  message.SerializeToString(&body);
  auto answered = client.Call("POST", path, body, deadline);
  if (!answered.ok()) return std::move(answered).error();
  Answer answer;
  if (!answer.ParseFromString(answered->body)) {
    return Error(ErrorCode::kCorruption, path + ": the answer cannot be read");
  }
  return answer;
}

/// Reads a request's body as a message, or answers with the error. False: it was answered.
template <typename Message>
bool ReadMessage(transport::Request& request, transport::Response& response, Message& message) {
  auto body = request.ReadAll();
  if (!body.ok()) return (void)response.Fail(body.error()), false;
  if (!message.ParseFromString(*body)) {
    return (void)response.Fail(Error(ErrorCode::kInvalidArgument, "the request cannot be read")),
           false;
  }
  return true;
}

template <typename Message>
void ReplyMessage(transport::Response& response, const Result<Message>& answer) {
  if (!answer.ok()) {
    (void)response.Fail(answer.error());
    return;
  }
  std::string body;
  answer->SerializeToString(&body);
  (void)response.Reply(200, "application/x-protobuf", body);
}

/// A chain checksum in a query string, and back. Errors: kInvalidArgument.
Result<Checksum> ChecksumFromHex(std::string_view hex);

}  // namespace quadfs::metadata
