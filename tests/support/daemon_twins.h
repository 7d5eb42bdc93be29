#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "metadata/hub.h"
#include "metadata/local_store.h"

namespace quadfs::test {

/// A LocalStore in memory. Threads: one.
class MemLocalStore final : public metadata::LocalStore {
 public:
  Result<std::string> Get(std::string_view family, std::string_view key) const override {
    const auto found = rows_.find({std::string(family), std::string(key)});
    if (found == rows_.end()) return Error(ErrorCode::kNotFound, "no such row");
    return found->second;
  }
  Result<void> Put(std::string_view family, std::string_view key, std::string_view value) override {
    rows_[{std::string(family), std::string(key)}] = std::string(value);
    return {};
  }
  Result<void> Erase(std::string_view family, std::string_view key) override {
    rows_.erase({std::string(family), std::string(key)});
    return {};
  }
  Result<void> Write(const Batch& batch) override {
    for (const Batch::Item& item : batch.items) {
      if (item.erase) {
        rows_.erase({item.family, item.key});
      } else {
        rows_[{item.family, item.key}] = item.value;
      }
    }
    return {};
  }
  Result<void> Sync() override {
    ++syncs_;
    return {};
  }
  Result<void> Scan(
      std::string_view family, std::string_view prefix, std::string_view from,
      const std::function<bool(std::string_view, std::string_view)>& row) const override {
    for (const auto& [key, value] : rows_) {
      if (key.first != family || !key.second.starts_with(prefix) || key.second < from) continue;
      if (!row(key.second, value)) break;
    }
    return {};
  }

  int syncs() const { return syncs_; }
  size_t size() const { return rows_.size(); }

 private:
  std::map<std::pair<std::string, std::string>, std::string> rows_;
  int syncs_ = 0;
};

/// A hub that only knows members: enough for enrolment. `fail_next` makes Enroll fail once.
class MembersHub final : public metadata::Hub {
 public:
  void AddRoutes(transport::Server&) override {}
  Result<void> Start() override { return {}; }
  void Stop() override {}
  const metadata::View& view() const override { return view_; }
  Result<metadata::OpResult> Submit(const metadata::Operation&, Deadline) override {
    return Error(ErrorCode::kNotSupported, "members only");
  }
  Result<metadata::Member> Enroll(const metadata::Member& wanted, Deadline) override {
    if (std::exchange(fail_next, false)) return Error(ErrorCode::kUnavailable, "made to fail");
    const bool node = static_cast<bool>(wanted.node);
    for (metadata::Member& known : view_.members) {
      if (static_cast<bool>(known.node) != node || known.name != wanted.name) continue;
      if (node && known.campus != wanted.campus)
        return Error(ErrorCode::kExists, "another campus's");
      known.addresses = wanted.addresses;
      return known;
    }
    metadata::Member member = wanted;
    ++next_;
    if (node) member.node = NodeId(next_);
    if (!node && !member.campus) member.campus = CampusId(next_);
    view_.members.push_back(member);
    return member;
  }
  Result<void> SendMessage(CampusId, NodeId, uint32_t, std::string) override { return {}; }
  Result<void> SendUpstream(uint32_t, std::string, Deadline) override { return {}; }
  Status status() const override { return {}; }

  bool fail_next = false;

 private:
  class MembersView final : public metadata::View {
   public:
    Result<metadata::Attributes> Lookup(InodeId, std::string_view) const override { return None(); }
    Result<metadata::Attributes> Get(InodeId) const override { return None(); }
    Result<std::vector<metadata::DirectoryEntry>> List(InodeId, std::string_view, size_t,
                                                       bool) const override {
      return None();
    }
    Result<std::string> GetXattr(InodeId, std::string_view) const override { return None(); }
    Result<std::vector<std::string>> ListXattr(InodeId) const override { return None(); }
    Result<std::vector<metadata::Location>> Locations(InodeId) const override { return None(); }
    Result<metadata::Totals> SubtreeTotals(InodeId) const override { return None(); }
    Result<std::pair<InodeId, std::string>> NameOf(InodeId) const override { return None(); }
    Result<std::string> PathOf(InodeId) const override { return None(); }
    Result<metadata::Attributes> Resolve(std::string_view,
                                         const metadata::Credentials&) const override {
      return None();
    }
    Result<std::optional<InodeId>> ForkOf(const ObjectId&) const override {
      return std::optional<InodeId>();
    }
    Result<metadata::Member> FindMember(CampusId campus, NodeId node) const override {
      for (const metadata::Member& member : members) {
        if (member.campus == campus && member.node == node) return member;
      }
      return None();
    }
    Result<std::vector<metadata::Member>> Members() const override { return members; }
    SequenceNumber Position() const override { return {}; }

    std::vector<metadata::Member> members{{kMainCampus, NodeId(), "main", {"hub-main:7440"}}};

   private:
    static Error None() { return {ErrorCode::kNotFound, "members only"}; }
  };

  MembersView view_;
  uint64_t next_ = 1;
};

}  // namespace quadfs::test
