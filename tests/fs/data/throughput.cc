// Prints MB/s of the chain over TLS on the loopback, all in one process, disks included:
// a cold fetch over one hop (node ← hub's store) and two (node ← branch hub's cache ← main's
// store), the second reader of the campus, and a file's way up from a node into a store.
#include <cstdio>
#include <ctime>

#include "fs/data/hub_source.h"
#include "tests/support/fs_data_campus.h"
#include "tests/transport/tls_fixture.h"

namespace quadfs {
namespace {

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void Print(const char* what, uint64_t bytes, const std::function<Result<void>()>& work) {
  const auto begun = std::chrono::steady_clock::now();
  const double cpu = CpuSeconds();
  const auto done = work();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  const double megabytes = static_cast<double>(bytes) / 1e6;
  // On a busy machine the second figure tells more: what one core could carry.
  std::printf("%-52s %6.0f MB/s, %6.0f MB per CPU second%s\n", what, megabytes / took.count(),
              megabytes / (CpuSeconds() - cpu),
              done.ok() ? "" : (" FAILED: " + done.error().ToString()).c_str());
}

/// A fresh cache that completes one object from a hub.
void Fetch(const char* what, transport::Client& client, const test::TestNamespace& names,
           const ObjectId& id) {
  test::ScratchDirectory directory;
  test::SharedLocalStore local;
  test::FamilyIndex index(local, "cache");
  cache::BlockCache::Options options;
  options.directory = directory.path();
  const auto cache = cache::BlockCache::Open(options, index);
  fs::HubSource source(client);
  const auto fetcher = fs::Fetcher::Create({}, **cache, source);
  const auto attributes = *names.Get(id.inode);
  const auto object = *(*cache)->FindOrCreate(id, attributes.size, attributes.root);
  const auto first_begun = std::chrono::steady_clock::now();
  (void)fetcher->Ensure(object, 0, 1, fs::Fetcher::Priority::kReader, test::InTime());
  const std::chrono::duration<double, std::milli> first =
      std::chrono::steady_clock::now() - first_begun;
  Print(what, attributes.size, [&] {
    return fetcher->Complete(object, fs::Fetcher::Priority::kCompletion,
                             Deadline::After(std::chrono::minutes(5)));
  });
  std::printf("%-52s %7.1f ms\n", "  its first block", first.count());
  fetcher->Stop();
}

int Run(uint64_t blocks) {
  test::TestNamespace names;
  test::TestCluster cluster;
  const auto hub_tls = cluster.Make(transport::Role::kHub);
  test::TestCampusHub main_hub(1, names);
  const auto main_server = cluster.MakeServer();
  main_hub.data->AddRoutes(*main_server);
  if (!main_server->Start().ok()) return 1;
  const auto uplink = cluster.MakeClient({test::LoopbackAddress(main_server->port())}, hub_tls);
  test::TestCampusHub branch(2, names, &main_hub, uplink.get());
  const auto branch_server = cluster.MakeServer();
  branch.data->AddRoutes(*branch_server);
  if (!branch_server->Start().ok()) return 1;
  const auto node_line = cluster.MakeClient(*branch_server);

  test::TestCampusNode writer(5, names, main_hub);
  const auto content = test::MakeContent(blocks * kBlockBytes, 1);
  const InodeId inode = names.MakeFile(kRootInode, "f");
  ObjectId id;
  Print("write, publish, store, read back, commit (no TLS)", content.size(), [&] {
    id = writer.Write(inode, content);
    return writer.data->write_back().WaitDrained(inode, Deadline::After(std::chrono::minutes(5)));
  });
  Fetch("cold, one hop: branch's source ← TLS ← main's store", *uplink, names, id);
  Fetch("cold, two hops: node ← TLS ← branch ← TLS ← main", *node_line, names, id);
  Fetch("second node of the campus: node ← TLS ← branch", *node_line, names, id);
  main_server->Stop();
  branch_server->Stop();
  return 0;
}

}  // namespace
}  // namespace quadfs

int main(int argc, char** argv) {
  return quadfs::Run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 256);
}
