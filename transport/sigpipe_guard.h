#pragma once

#include <csignal>
#include <ctime>

namespace quadfs::transport {

/// Keeps a write to a closed socket from raising SIGPIPE in this thread, and takes away one that it
/// left pending. OpenSSL and libcurl write without MSG_NOSIGNAL, and a library must not change how
/// the whole process takes a signal.
class SigpipeGuard {
 public:
  SigpipeGuard() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t old;
    pthread_sigmask(SIG_BLOCK, &pipe_, &old);
    was_blocked_ = sigismember(&old, SIGPIPE) == 1;
  }
  ~SigpipeGuard() {
    if (was_blocked_) return;
    sigset_t pending;
    if (sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1) {
      const timespec at_once{};
      sigtimedwait(&pipe_, nullptr, &at_once);
    }
    pthread_sigmask(SIG_UNBLOCK, &pipe_, nullptr);
  }
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;

 private:
  sigset_t pipe_{};
  bool was_blocked_ = false;
};

}  // namespace quadfs::transport
