// Mounts a node over twins at DIRECTORY/mnt until SIGTERM or SIGINT: for suites of other people
// that want a mount point. A second node of the same namespace: DIRECTORY/2/mnt.
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "tests/support/fs_node_test_mount.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: fs_node_serve_mount DIRECTORY [--two] [--no-passthrough]\n";
    return 2;
  }
  const std::string directory = argv[1];
  quadfs::fs::NodeMount::Options options;
  bool two = false;
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i], "--two") == 0) two = true;
    if (std::strcmp(argv[i], "--no-passthrough") == 0) options.passthrough = false;
  }
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  sigprocmask(SIG_BLOCK, &ending, nullptr);
  std::filesystem::create_directories(directory + "/2");
  quadfs::test::TestCluster cluster(directory);
  quadfs::test::TestMount first(cluster, directory, 1, options);
  quadfs::test::TestMount second(cluster, directory + "/2", 2, options);
  if (auto started = first.Start(); !started.ok()) {
    std::cerr << started.error().ToString() << "\n";
    return 1;
  }
  if (two) {
    if (auto started = second.Start(); !started.ok()) {
      std::cerr << started.error().ToString() << "\n";
      return 1;
    }
  }
  std::cout << "mounted " << first.path() << std::endl;
  int signal = 0;
  sigwait(&ending, &signal);
  const auto status = first.mount().status();
  std::cout << "passthrough " << status.passthrough << ", opens " << status.passthrough_opens
            << " + " << status.cached_opens << " cached, inodes " << status.inodes << ", open "
            << status.open_files << " " << status.problem << std::endl;
  return 0;
}
