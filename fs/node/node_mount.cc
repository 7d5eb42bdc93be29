#include "fs/node/node_mount.h"

#include <linux/magic.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <sstream>
#include <vector>

#include "fs/node/invalidator.h"
#include "fs/node/mount_core.h"
#include "fs/node/publisher.h"
#include "fs/node/request.h"

namespace quadfs::fs {
namespace {

/// Options of fstab that are not the kernel's.
bool IsForOthers(const std::string& option) {
  for (const std::string_view prefix : {"x-", "config=", "comment="}) {
    if (option.starts_with(prefix)) return true;
  }
  for (const std::string_view name :
       {"defaults", "_netdev",    "auto",     "noauto", "nofail",   "user",
        "nouser",   "users",      "owner",    "group",  "relatime", "strictatime",
        "lazytime", "nolazytime", "mand",     "nomand", "loud",     "silent",
        "iversion", "noiversion", "diratime", "atime"}) {
    if (option == name) return true;
  }
  return option.empty();
}

std::string MountOptions(const NodeMount::Options& options) {
  std::string text = "fsname=quadfs,subtype=quadfs,default_permissions";
  if (options.allow_other) text += ",allow_other";
  std::stringstream extra(options.extra_options);
  for (std::string option; std::getline(extra, option, ',');) {
    if (!IsForOthers(option)) text += "," + option;
  }
  return text;
}

/// Where the cache is on a stacked file system, passthrough needs one more level.
bool IsStacked(const std::string& directory) {
  struct statfs status {};
  return !directory.empty() && ::statfs(directory.c_str(), &status) == 0 &&
         status.f_type == OVERLAYFS_SUPER_MAGIC;
}

void Init(void* user_data, fuse_conn_info* connection) {
  MountCore& core = *static_cast<MountCore*>(user_data);
  const auto want = [connection](unsigned int capability) {
    if ((connection->capable & capability) != 0) connection->want |= capability;
  };
  want(FUSE_CAP_POSIX_LOCKS);
  want(FUSE_CAP_FLOCK_LOCKS);
  want(FUSE_CAP_ATOMIC_O_TRUNC);
  want(FUSE_CAP_PARALLEL_DIROPS);
  want(FUSE_CAP_READDIRPLUS);
  want(FUSE_CAP_READDIRPLUS_AUTO);
  want(FUSE_CAP_ASYNC_READ);
  want(FUSE_CAP_SPLICE_WRITE);
  want(FUSE_CAP_CACHE_SYMLINKS);
  // A write asks for security.capability once, not each time; set-id bits are this daemon's care.
  want(FUSE_CAP_HANDLE_KILLPRIV_V2);
  // Pages are dropped when a new version is published, not when a time stamp moves.
  connection->want &= ~static_cast<unsigned int>(FUSE_CAP_AUTO_INVAL_DATA);
  connection->want &= ~static_cast<unsigned int>(FUSE_CAP_WRITEBACK_CACHE);
  connection->time_gran = 1;
  connection->max_background = 256;
  connection->congestion_threshold = 192;
  core.passthrough =
      core.options.passthrough && WantPassthrough(*connection, IsStacked(core.CacheDirectory()));
}

fuse_lowlevel_ops Operations() {
  fuse_lowlevel_ops table{};
  table.init = Init;
  AddNameOperations(table);
  AddAttributeOperations(table);
  AddDirectoryOperations(table);
  AddOpenOperations(table);
  AddContentOperations(table);
  AddRangeOperations(table);
  AddXattrOperations(table);
  AddLockOperations(table);
  return table;
}

/// Wakes the loop's thread out of its wait; it finds that the session ended.
int WakeSignal() { return SIGRTMIN + 7; }

class NodeMountImpl final : public NodeMount {
 public:
  NodeMountImpl(Options options, metadata::LocalStore& local, cache::BlockCache& cache,
                metadata::NodeReplica& replica, NodeData& data)
      : core_(std::move(options), local, cache, replica, data) {}
  ~NodeMountImpl() override {
    Unmount();
    core_.invalidator->Stop();
    if (session_ != nullptr) fuse_session_destroy(session_);
  }

  Result<void> Open();
  Result<void> Mount() override;
  Result<void> Run() override;
  void Unmount() override;
  void Recover() override { core_.publisher->Recover(); }
  void OnChange(const metadata::Change& change) override { core_.invalidator->OnChange(change); }
  void OnReset() override { core_.invalidator->OnReset(); }
  void OnRefused(const metadata::Operation& operation, const Error& why) override {
    core_.SetProblem("the hub refused a change made here: " + why.ToString());
    if (operation.kind == metadata::OpKind::kPublish) {
      core_.publisher->Republish({operation.inode, operation.generation});
    }
  }
  Status status() const override;
  Result<void> Publish(InodeId inode, Deadline deadline) override;
  bool IsDirty(InodeId inode) const override;

 private:
  void EndLoop();

  mutable MountCore core_;
  fuse_session* session_ = nullptr;
  Mutex mutex_;
  CondVar changed_;
  enum class State { kNew, kMounted, kServing, kServed, kUnmounted };
  State state_ QUADFS_GUARDED_BY(mutex_) = State::kNew;
  bool unmounting_ QUADFS_GUARDED_BY(mutex_) = false;
  pthread_t loop_thread_ QUADFS_GUARDED_BY(mutex_){};
};

Result<void> NodeMountImpl::Open() {
  static const fuse_lowlevel_ops kOperations = Operations();
  const std::string options = MountOptions(core_.options);
  std::vector<std::string> words = {"quadfs", "-o", options};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(pointers.size()), pointers.data());
  session_ = fuse_session_new(&arguments, &kOperations, sizeof(kOperations), &core_);
  fuse_opt_free_args(&arguments);
  if (session_ == nullptr) {
    return Error(ErrorCode::kInvalidArgument, "mount options \"" + options + "\": one is unknown");
  }
  return {};
}

Result<void> NodeMountImpl::Mount() {
  const std::string& path = core_.options.mount_point;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return ErrorFromErrno(errno, "mount point " + path);
  }
  if (!S_ISDIR(status.st_mode)) {
    return Error(ErrorCode::kNotDirectory, "mount point " + path + " is not a directory");
  }
  // What a crash left must show before the first program looks.
  auto unsaved = core_.cache.Unsaved();
  if (unsaved.ok() && !unsaved->empty()) core_.NoteCachePath(unsaved->front()->path());
  core_.publisher->Recover();
  if (fuse_session_mount(session_, path.c_str()) != 0) {
    return Error(ErrorCode::kAccess,
                 "cannot mount " + path + ": is /dev/fuse there, and does the daemon run as root?");
  }
  core_.invalidator->Start(session_);
  core_.publisher->Start();
  const MutexLock lock(mutex_);
  state_ = State::kMounted;
  return {};
}

Result<void> NodeMountImpl::Run() {
  {
    const MutexLock lock(mutex_);
    if (state_ != State::kMounted) return Error(ErrorCode::kBusy, "not mounted");
    state_ = State::kServing;
    loop_thread_ = ::pthread_self();
  }
  struct sigaction wake {};
  wake.sa_handler = [](int) {};
  ::sigaction(WakeSignal(), &wake, nullptr);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, WakeSignal());
  ::pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);

  fuse_loop_config* const config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_clone_fd(config, 1);
  fuse_loop_cfg_set_max_threads(config, core_.options.max_threads);
  fuse_loop_cfg_set_idle_threads(config, core_.options.max_threads);
  const int failed = fuse_session_loop_mt(session_, config);
  fuse_loop_cfg_destroy(config);
  core_.lock_waiters.Stop();

  const MutexLock lock(mutex_);
  state_ = State::kServed;
  changed_.NotifyAll();
  if (failed < 0) return ErrorFromErrno(-failed, "serving " + core_.options.mount_point);
  return {};
}

void NodeMountImpl::EndLoop() {
  MutexLock lock(mutex_);
  if (state_ != State::kServing) return;
  fuse_session_exit(session_);
  while (state_ == State::kServing) {
    ::pthread_kill(loop_thread_, WakeSignal());
    changed_.WaitFor(mutex_, std::chrono::milliseconds(20));
  }
}

void NodeMountImpl::Unmount() {
  {
    MutexLock lock(mutex_);
    if (unmounting_) {  // Another thread does it, or did: wait for its end.
      while (state_ != State::kUnmounted && state_ != State::kNew) changed_.Wait(mutex_);
      return;
    }
    unmounting_ = true;
    if (state_ == State::kNew) return;
  }
  core_.publisher->Drain(Deadline::After(2 * core_.options.deadline));
  EndLoop();
  core_.publisher->Drain(Deadline::After(core_.options.deadline));  // Written meanwhile.
  core_.publisher->Stop();
  core_.invalidator->Stop();
  core_.lock_waiters.Stop();
  fuse_session_unmount(session_);
  const MutexLock lock(mutex_);
  state_ = State::kUnmounted;
  changed_.NotifyAll();
}

NodeMount::Status NodeMountImpl::status() const {
  Status status;
  status.passthrough = core_.passthrough;
  status.open_files = core_.open_handles;
  status.inodes = core_.inodes.size();
  status.passthrough_opens = core_.passthrough_opens;
  status.cached_opens = core_.cached_opens;
  status.problem = core_.problem();
  return status;
}

Result<void> NodeMountImpl::Publish(InodeId inode, Deadline deadline) {
  const FileTable::Ref file = core_.files.Find(core_.inodes.Current(inode));
  if (!file) return {};
  const MutexLock turn(file->turn);
  if (file->writers > 0) return core_.publisher->PublishNow(*file, deadline);
  return core_.publisher->Finish(*file, deadline);
}

bool NodeMountImpl::IsDirty(InodeId inode) const {
  const FileTable::Ref file = core_.files.Find(core_.inodes.Current(inode));
  if (!file) return false;
  const MutexLock lock(file->mutex);
  return file->Changed() || file->pending;
}

}  // namespace

Result<std::unique_ptr<NodeMount>> NodeMount::Create(Options options, metadata::LocalStore& local,
                                                     cache::BlockCache& cache,
                                                     metadata::NodeReplica& replica,
                                                     NodeData& data) {
  auto mount = std::make_unique<NodeMountImpl>(std::move(options), local, cache, replica, data);
  if (auto opened = mount->Open(); !opened.ok()) return std::move(opened).error();
  return std::unique_ptr<NodeMount>(std::move(mount));
}

}  // namespace quadfs::fs
