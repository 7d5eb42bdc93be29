#include "fs/daemon/token_registry.h"

#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "transport/base/checksum.h"

namespace quadfs::daemon {
namespace {

using Json = nlohmann::json;
constexpr int64_t kDaySeconds = 86'400;

int64_t NowSeconds() { return static_cast<int64_t>(std::time(nullptr)); }

std::string Fingerprint(const std::string& csr_pem) {
  return ChecksumOf(std::as_bytes(std::span(csr_pem.data(), csr_pem.size()))).ToHex();
}

}  // namespace

struct TokenRegistry::Row {
  transport::PeerIdentity wanted;
  int64_t expires = 0;
  std::string claimed_by;  ///< Fingerprint of the certificate request; empty: unused.
};

Result<TokenRegistry::Row> TokenRegistry::Read(const std::string& serial) const {
  auto text = store_.Get(kFamily, serial);
  if (!text.ok()) {
    if (text.error().code() != ErrorCode::kNotFound) return std::move(text).error();
    return Error(ErrorCode::kUnauthenticated,
                 "this token was not issued here; ask for one at main");
  }
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Error(ErrorCode::kCorruption, "token " + serial + ": damaged row");
  Row row;
  row.wanted.role = transport::Role::kJoin;
  row.wanted.wanted_role =
      json.value("role", "") == "hub" ? transport::Role::kHub : transport::Role::kNode;
  row.wanted.campus = CampusId(json.value("campus_id", uint64_t{0}));
  row.wanted.campus_name = json.value("campus", "");
  row.wanted.name = json.value("name", "");
  row.wanted.serial = serial;
  row.expires = json.value("expires", int64_t{0});
  row.claimed_by = json.value("claimed_by", "");
  return row;
}

Result<void> TokenRegistry::Write(const std::string& serial, const Row& row) {
  const Json json{{"role", row.wanted.wanted_role == transport::Role::kHub ? "hub" : "node"},
                  {"campus_id", row.wanted.campus.value},
                  {"campus", row.wanted.campus_name},
                  {"name", row.wanted.name},
                  {"expires", row.expires},
                  {"claimed_by", row.claimed_by}};
  if (auto put = store_.Put(kFamily, serial, json.dump()); !put.ok()) return put;
  return store_.Sync();
}

void TokenRegistry::ForgetExpired() {
  std::vector<std::string> old;
  const int64_t limit = NowSeconds() - kDaySeconds;
  const auto scanned =
      store_.Scan(kFamily, "", "", [&old, limit](std::string_view key, std::string_view value) {
        const Json json = Json::parse(value, nullptr, /*allow_exceptions=*/false);
        if (json.is_object() && json.value("expires", int64_t{0}) < limit) old.emplace_back(key);
        return old.size() < 1000;
      });
  if (!scanned.ok()) return;  // The next token tries again.
  for (const std::string& key : old) {
    if (!store_.Erase(kFamily, key).ok()) return;
  }
}

Result<void> TokenRegistry::Issue(const std::string& serial, const transport::PeerIdentity& wanted,
                                  std::chrono::seconds validity) {
  const MutexLock lock(mutex_);
  ForgetExpired();
  return Write(serial, {wanted, NowSeconds() + validity.count(), ""});
}

Result<transport::PeerIdentity> TokenRegistry::Claim(const std::string& serial,
                                                     const std::string& csr_pem) {
  const MutexLock lock(mutex_);
  Row row = QUADFS_TRY(Read(serial));
  if (row.expires < NowSeconds()) {
    return Error(ErrorCode::kUnauthenticated, "the token has expired; ask for a new one at main");
  }
  const std::string fingerprint = Fingerprint(csr_pem);
  if (!row.claimed_by.empty() && row.claimed_by != fingerprint) {
    return Error(ErrorCode::kUnauthenticated,
                 "the token was used already; ask for a new one at main");
  }
  row.claimed_by = fingerprint;
  QUADFS_TRY(Write(serial, row));
  return row.wanted;
}

Result<void> TokenRegistry::Release(const std::string& serial, const std::string& csr_pem) {
  const MutexLock lock(mutex_);
  Row row = QUADFS_TRY(Read(serial));
  if (row.claimed_by != Fingerprint(csr_pem)) return {};
  row.claimed_by.clear();
  return Write(serial, row);
}

}  // namespace quadfs::daemon
