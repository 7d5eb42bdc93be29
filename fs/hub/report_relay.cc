#include "fs/hub/report_relay.h"

#include "fs/data/messages.h"
#include "fs/data/prefetch.h"

namespace quadfs::fs {
namespace {

constexpr std::chrono::seconds kSendDeadline{2};

}  // namespace

ReportRelay::ReportRelay(CampusId campus, bool primary, metadata::Hub& hub,
                         std::function<void(const metadata::Message&)> prefetch,
                         std::chrono::milliseconds poll)
    : campus_(campus), primary_(primary), hub_(hub), prefetch_(std::move(prefetch)), poll_(poll) {}

void ReportRelay::Start() {
  if (poll_.count() == 0) return;
  thread_ = std::jthread([this] {
    for (;;) {
      {
        MutexLock lock(mutex_);
        if (!stopping_ && queue_.empty()) work_.WaitFor(mutex_, poll_);
        if (stopping_) return;
      }
      Round();
    }
  });
}

void ReportRelay::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    work_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void ReportRelay::OnMessage(const metadata::Message& message) {
  MutexLock lock(mutex_);
  if (queue_.size() >= kMaxQueued) {
    queue_.clear();
    lost_ = true;
  }
  queue_.push_back(message);
  work_.NotifyOne();
}

void ReportRelay::Round() {
  std::deque<metadata::Message> messages;
  bool lost = false;
  {
    MutexLock lock(mutex_);
    messages.swap(queue_);
    lost = std::exchange(lost_, false);
  }
  for (const auto& message : messages) {
    if (message.kind == kMessageCacheReport) Report(message);
    if (message.kind == kMessagePrefetch) Prefetch(message);
  }
  if (lost) {
    peers_.clear();
    main_told_ = false;
  }
  LookAfterPeers();
}

void ReportRelay::Report(const metadata::Message& message) {
  const auto report = CacheReportMessage::Decode(message.payload);
  if (!report.ok()) return;
  // A node speaks for itself, a branch hub for its campus, main for all others.
  const bool own_node = message.node && message.campus == campus_ && report->node == message.node &&
                        report->campus == campus_;
  const bool other_hub = !message.node && report->campus != campus_ &&
                         (primary_ ? report->campus == message.campus : true);
  if (!own_node && !other_hub) return;
  cached_.Apply(*report);
  campuses_[report->node] = report->campus;
  Spread(*report, message.payload, nullptr);
}

/// To this campus's nodes and, at main, to the other campuses; a campus's own report to main.
void ReportRelay::Spread(const CacheReportMessage& report, const std::string& payload,
                         const Peer* only) {
  for (const Peer& peer : peers_) {
    if (only != nullptr && peer != *only) continue;
    const bool its_own = peer.second ? peer.second == report.node : peer.first == report.campus;
    if (its_own) continue;
    // A peer whose stream is down is told everything when it is back.
    (void)hub_.SendMessage(peer.first, peer.second, kMessageCacheReport, payload);
  }
  if (only == nullptr && !primary_ && main_told_ && report.campus == campus_) {
    main_told_ =
        hub_.SendUpstream(kMessageCacheReport, payload, Deadline::After(kSendDeadline)).ok();
  }
}

void ReportRelay::Prefetch(const metadata::Message& message) {
  const auto wanted = PrefetchMessage::Decode(message.payload);
  if (!wanted.ok()) return;
  if (wanted->campus == campus_ && !wanted->node) {
    prefetch_(message);
  } else if (wanted->campus == campus_) {
    (void)hub_.SendMessage(campus_, wanted->node, kMessagePrefetch, message.payload);
  } else if (primary_) {
    (void)hub_.SendMessage(wanted->campus, NodeId(0), kMessagePrefetch, message.payload);
  } else if (message.node) {  // From an own node; what main sent never goes back.
    (void)hub_.SendUpstream(kMessagePrefetch, message.payload, Deadline::After(kSendDeadline));
  }
}

void ReportRelay::Forget(NodeId node, CampusId campus) {
  cached_.Forget(node);
  campuses_.erase(node);
  const CacheReportMessage gone{campus, node, true, {}};
  Spread(gone, gone.Encode(), nullptr);
}

void ReportRelay::LookAfterPeers() {
  const auto status = hub_.status();
  std::set<Peer> now;
  for (const auto& peer : status.peers) {
    if (peer.connected) now.insert({peer.member.campus, peer.member.node});
  }
  const std::set<Peer> before = std::exchange(peers_, now);
  for (const Peer& peer : before) {
    if (now.contains(peer)) continue;
    std::vector<NodeId> gone;
    for (const auto& [node, campus] : campuses_) {
      if (peer.second ? node == peer.second : campus == peer.first) gone.push_back(node);
    }
    for (const NodeId node : gone) Forget(node, peer.first);
  }
  for (const Peer& peer : now) {
    if (before.contains(peer)) continue;
    for (const NodeId node : cached_.Nodes()) {
      if (const auto all = cached_.Snapshot(node)) Spread(*all, all->Encode(), &peer);
    }
  }
  if (primary_) return;
  if (!status.main_connected) {
    main_told_ = false;
    return;
  }
  if (main_told_) return;
  main_told_ = true;
  for (const NodeId node : cached_.Nodes()) {
    const auto all = cached_.Snapshot(node);
    if (!all || all->campus != campus_ || !main_told_) continue;
    main_told_ =
        hub_.SendUpstream(kMessageCacheReport, all->Encode(), Deadline::After(kSendDeadline)).ok();
  }
}

}  // namespace quadfs::fs
