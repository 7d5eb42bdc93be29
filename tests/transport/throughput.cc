// Prints what one connection carries on this machine: latency of small calls, bulk both ways, and
// the processor time of either side per GiB. Server and client run in one process, told apart by
// the threads' own clocks.
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "tests/transport/tls_fixture.h"

namespace quadfs::test {
namespace {

using transport::Request;
using transport::Response;
using transport::Role;

double ThreadSeconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double Seconds(Clock::Duration duration) { return std::chrono::duration<double>(duration).count(); }

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr size_t kPieceBytes = size_t{1} << 20;

int Run() {
  TestCluster cluster;
  const auto server = cluster.MakeServer();
  double server_seconds = 0;
  const std::vector<std::byte> piece(kPieceBytes);
  server->Route("POST", "/small", {Role::kNode}, [](Request& request, Response& response) {
    (void)response.Reply(200, "application/x-protobuf", *request.ReadAll());
  });
  server->Route("GET", "/bulk", {Role::kNode}, [&](Request&, Response& response) {
    const double before = ThreadSeconds();
    (void)response.Start(200, "application/octet-stream", kGiB);
    for (uint64_t at = 0; at < kGiB; at += kPieceBytes) (void)response.Write(piece);
    server_seconds = ThreadSeconds() - before;
  });
  server->Route("PUT", "/bulk", {Role::kNode}, [&](Request& request, Response& response) {
    const double before = ThreadSeconds();
    std::vector<std::byte> buffer(kPieceBytes);
    for (;;) {
      const auto got = request.ReadBody(buffer);
      if (!got.ok() || *got == 0) break;
    }
    server_seconds = ThreadSeconds() - before;
    (void)response.Reply(204, "", "");
  });
  if (!server->Start().ok()) return 1;
  const auto client = cluster.MakeClient(*server);

  std::vector<double> micros;
  const std::string body(150, 'x');
  for (int i = 0; i < 5000; ++i) {
    const auto before = std::chrono::steady_clock::now();
    if (!client->Call("POST", "/small", body, Soon()).ok()) return 1;
    micros.push_back(Seconds(std::chrono::steady_clock::now() - before) * 1e6);
  }
  std::sort(micros.begin(), micros.end());
  std::printf("small call: p50 %.0f us, p99 %.0f us\n", micros[micros.size() / 2],
              micros[micros.size() * 99 / 100]);

  for (int round = 0; round < 3; ++round) {
    double cpu = ThreadSeconds();
    auto before = std::chrono::steady_clock::now();
    const auto down = client->Download("GET", "/bulk", "", Deadline::After(std::chrono::minutes(1)),
                                       [](std::span<const std::byte>) { return Result<void>(); });
    double took = Seconds(std::chrono::steady_clock::now() - before);
    if (!down.ok()) return 1;
    std::printf("download: %.0f MB/s, server %.2f, client %.2f CPU s/GiB\n",
                static_cast<double>(kGiB) / 1e6 / took, server_seconds, ThreadSeconds() - cpu);
    cpu = ThreadSeconds();
    before = std::chrono::steady_clock::now();
    const auto up = client->Upload(
        "/bulk", kGiB, [](std::span<std::byte> buffer) -> Result<size_t> { return buffer.size(); },
        Deadline::After(std::chrono::minutes(1)));
    took = Seconds(std::chrono::steady_clock::now() - before);
    if (!up.ok()) return 1;
    std::printf("upload:   %.0f MB/s, server %.2f, client %.2f CPU s/GiB\n",
                static_cast<double>(kGiB) / 1e6 / took, server_seconds, ThreadSeconds() - cpu);
  }
  return 0;
}

}  // namespace
}  // namespace quadfs::test

int main() { return quadfs::test::Run(); }
