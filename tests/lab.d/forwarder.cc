// A long line between two network namespaces: a TUN device in each, and between them delay, loss,
// a rate and a switch. See control_server.h for what can be changed and asked while it runs.
//
//   quadfs_lab_forwarder NETNS_A DEVICE_A NETNS_B DEVICE_B CONTROL_SOCKET SEED

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "control_server.h"
#include "link_direction.h"
#include "tun_device.h"

int main(int argc, char** argv) {
  using namespace quadfs::lab;
  if (argc != 7) {
    std::fprintf(stderr,
                 "usage: quadfs_lab_forwarder NETNS_A DEVICE_A NETNS_B DEVICE_B CONTROL_SOCKET "
                 "SEED\n");
    return 2;
  }
  TunDevice device_a(argv[1], argv[2]);
  TunDevice device_b(argv[3], argv[4]);
  const uint64_t seed = std::strtoull(argv[6], nullptr, 10);

  LinkSettings settings;
  LinkDirection a_to_b(device_a, device_b, settings, seed);
  LinkDirection b_to_a(device_b, device_a, settings, ~seed);
  ControlServer control(argv[5], settings, a_to_b, b_to_a);
  const std::jthread a_to_b_thread([&a_to_b] { a_to_b.Run(); });
  const std::jthread b_to_a_thread([&b_to_a] { b_to_a.Run(); });
  control.Serve();
}
