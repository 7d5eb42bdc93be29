// Bytes on their whole way: node, campus hub, main, another campus.
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/fs_data_campus.h"

namespace quadfs::fs {
namespace {

using test::Content;
using test::InTime;
using test::IsError;
using test::IsOk;
using test::MakeContent;

class CampusTest : public testing::Test {
 protected:
  static constexpr uint64_t kA = 2, kB = 3;
  test::TestNamespace names_;
  test::TestCampusHub main_{1, names_};
  test::TestCampusHub a_{kA, names_, &main_};
  test::TestCampusHub b_{kB, names_, &main_};
  test::TestCampusNode a1_{5, names_, a_};
  test::TestCampusNode b1_{7, names_, b_};
};

// Written at a, saved at a and in the archive; read at b; what is on each disk is the content.
TEST_F(CampusTest, WrittenAtOneCampusReadAtAnother) {
  const InodeId directory = names_.MakeDirectory(kRootInode, "data");
  const InodeId inode = names_.MakeFile(directory, "x.bin");
  const Content content = MakeContent(7 * kBlockBytes + 4321, 1);
  const ObjectId id = a1_.Write(inode, content);
  ASSERT_THAT(a1_.data->write_back().WaitDrained(inode, InTime()), IsOk());
  EXPECT_EQ(test::ReadContent(a_.PathInStore("data/x.bin")), content);
  EXPECT_TRUE(names_.Has(inode, {CampusId(kA), NodeId(0), id.generation, true}));
  ASSERT_THAT(a_.data->write_back()->WaitDrained(inode, InTime()), IsOk());
  EXPECT_EQ(test::ReadContent(main_.PathInStore("data/x.bin")), content);
  EXPECT_TRUE(names_.Has(inode, {kMainCampus, NodeId(0), id.generation, true}));
  const auto read = b1_.Read(id);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, content);
}

// Not saved anywhere yet: main wants it from a's hub, that from the node. Nothing connects
// downwards.
TEST_F(CampusTest, AnUnsavedFileIsReadAtAnotherCampusThroughWants) {
  const InodeId inode = names_.MakeFile(kRootInode, "fresh");
  const Content content = MakeContent(5 * kBlockBytes + 99, 2);
  const ObjectId id = a1_.Write(inode, content, /*enqueue=*/false);
  const auto read = b1_.Read(id);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, content);
}

TEST_F(CampusTest, SmallFilesOfAnotherCampusArriveAsBundles) {
  std::vector<cache::ObjectRef> objects;
  std::vector<Content> contents;
  for (uint64_t i = 0; i < 60; ++i) {
    const InodeId inode = names_.MakeFile(kRootInode, "s" + std::to_string(i));
    contents.push_back(MakeContent(200 + i * 50, i));
    const ObjectId id = a1_.Write(inode, contents.back());
    const auto attributes = *names_.Get(inode);
    objects.push_back(*b1_.cache->FindOrCreate(id, attributes.size, attributes.root));
  }
  ASSERT_THAT(a1_.data->write_back().WaitDrained(std::nullopt, InTime()), IsOk());
  ASSERT_THAT(a_.data->write_back()->WaitDrained(std::nullopt, InTime()), IsOk());
  ASSERT_THAT(b1_.data->fetcher().CompleteBundle(objects, Fetcher::Priority::kReader, InTime()),
              IsOk());
  for (size_t i = 0; i < objects.size(); ++i) {
    const auto block = objects[i]->ReadBlock(0);
    ASSERT_THAT(block, IsOk()) << i;
    EXPECT_EQ(*block, contents[i]);
  }
}

// Both b hub's blocks and many readers: the line to main carries each block once.
// What lost a merge is the conflict copy's, whether it was still at the node, in its campus's store
// or about to be replaced there.
TEST_F(CampusTest, WhatLostAMergeIsKeptUnderTheConflictCopy) {
  const Content theirs = MakeContent(3'000'000, 61), ours = MakeContent(2'500'000, 62);
  const auto lose = [&](const std::string& name, InodeId file, const ObjectId& lost) {
    const InodeId copy = names_.MakeFile(kRootInode, name);
    const auto manifest = b1_.cache->Find(lost).value()->manifest();
    names_.Publish({copy, lost.generation}, *manifest,
                   {b_.campus(), NodeId(7), lost.generation, false});
    names_.SetFork(lost, copy);
    a1_.Write(file, theirs);
    metadata::Change change;
    change.attributes = change.contents = {file};
    b_.data->OnChange(change);
    b1_.data->OnChange(change);
    EXPECT_THAT(a1_.data->write_back().WaitDrained(file, InTime()), IsOk());
    return ObjectId{copy, lost.generation};
  };
  const auto expect_kept = [&](const ObjectId& copy) {
    const metadata::Location archived{main_.campus(), NodeId(0), copy.generation, true};
    const auto by = InTime();
    while (!names_.Has(copy.inode, archived) && !by.Passed()) std::this_thread::yield();
    EXPECT_TRUE(names_.Has(copy.inode, archived)) << b_.data->status().problem;
    EXPECT_EQ(a1_.Read(copy).value(), ours);
  };
  // Still at the node.
  const InodeId first = names_.MakeFile(kRootInode, "first");
  b1_.data->write_back().SetPaused(true);
  const ObjectId at_node = lose("first.copy", first, b1_.Write(first, ours));
  b1_.data->write_back().SetPaused(false);
  expect_kept(at_node);
  // In the store of its campus.
  const InodeId second = names_.MakeFile(kRootInode, "second");
  b_.data->write_back()->SetPaused(true);
  const ObjectId stored = b1_.Write(second, ours);
  ASSERT_THAT(b1_.data->write_back().WaitDrained(second, InTime()), IsOk());
  const ObjectId at_hub = lose("second.copy", second, stored);
  b_.data->write_back()->SetPaused(false);
  expect_kept(at_hub);
  EXPECT_EQ(test::ReadContent(b_.PathInStore("second.copy")), ours);
}

TEST_F(CampusTest, ManyReadersOfACampusShareOneFetch) {
  const InodeId inode = names_.MakeFile(kRootInode, "shared");
  const Content content = MakeContent(12 * kBlockBytes, 3);
  const ObjectId id = a1_.Write(inode, content);
  ASSERT_THAT(a1_.data->write_back().WaitDrained(inode, InTime()), IsOk());
  ASSERT_THAT(a_.data->write_back()->WaitDrained(inode, InTime()), IsOk());
  test::TestCampusNode b2(8, names_, b_), b3(9, names_, b_);
  std::vector<std::jthread> readers;
  for (auto* node : {&b1_, &b2, &b3}) {
    readers.emplace_back([&, node] {
      const auto read = node->Read(id);
      ASSERT_THAT(read, IsOk());
      EXPECT_EQ(*read, content);
    });
  }
  readers.clear();
  EXPECT_EQ(b_.data->fetcher().status().fetched_blocks, 12U);
}

// A byte flips in a's store: the reader at b gets the content from main, never the damage.
TEST_F(CampusTest, DamageInAStoreIsNeverServed) {
  const InodeId inode = names_.MakeFile(kRootInode, "hurt");
  const Content content = MakeContent(3 * kBlockBytes, 4);
  const ObjectId id = a1_.Write(inode, content);
  ASSERT_THAT(a1_.data->write_back().WaitDrained(inode, InTime()), IsOk());
  ASSERT_THAT(a_.data->write_back()->WaitDrained(inode, InTime()), IsOk());
  const std::string path = a_.PathInStore("hurt");
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(kBlockBytes + 5);
    file.put('\x55');
  }
  test::TestCampusNode a2(6, names_, a_);
  const auto read = a2.Read(id);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, content);
  EXPECT_FALSE(a_.data->status().problem.empty());
}

// A hub whose cache has no room still serves: it passes blocks through.
TEST_F(CampusTest, AHubWithoutRoomInItsCachePassesThrough) {
  b_.Kill();
  b_.cache_bytes = 2 * kBlockBytes;
  b_.Start();
  const InodeId inode = names_.MakeFile(kRootInode, "big");
  const Content content = MakeContent(9 * kBlockBytes, 5);
  const ObjectId id = a1_.Write(inode, content);
  ASSERT_THAT(a1_.data->write_back().WaitDrained(inode, InTime()), IsOk());
  ASSERT_THAT(a_.data->write_back()->WaitDrained(inode, InTime()), IsOk());
  const auto read = b1_.Read(id);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, content);
}

// What the namespace does not know cannot be had, nor by a node of another campus.
TEST_F(CampusTest, OnlyWhatTheNamespaceHasAndOnlyToItsOwn) {
  const InodeId inode = names_.MakeFile(kRootInode, "secret");
  const ObjectId id = a1_.Write(inode, MakeContent(1000, 6));
  ASSERT_THAT(a1_.data->write_back().WaitDrained(inode, InTime()), IsOk());
  const std::string target = "/v1/data/" + cache::ObjectName(id) + "?first=0&count=1";
  test::LiveClient stranger(a_.live, test::PeerOf(CampusId(kB), NodeId(7)));
  EXPECT_THAT(stranger.Call("GET", target, {}, InTime(), {}), IsError(ErrorCode::kUnauthenticated));
  test::LiveClient other_hub(a_.live, test::PeerOf(CampusId(kB), NodeId(0)));
  EXPECT_THAT(other_hub.Call("GET", target, {}, InTime(), {}),
              IsError(ErrorCode::kUnauthenticated));
  test::LiveClient own(a_.live, test::PeerOf(CampusId(kA), NodeId(5)));
  EXPECT_THAT(own.Call("GET", target, {}, InTime(), {}), IsOk());
  const std::string unknown = "/v1/data/" + cache::ObjectName({inode, Generation(1)});
  EXPECT_THAT(own.Call("GET", unknown + "?first=0&count=1", {}, InTime(), {}),
              IsError(ErrorCode::kNotFound));
  EXPECT_THAT(
      own.Call("GET", "/v1/data/" + cache::ObjectName(id) + "?first=0&count=9", {}, InTime(), {}),
      IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(own.Call("GET", "/v1/data/garbage?first=x&count=1", {}, InTime(), {}),
              IsError(ErrorCode::kInvalidArgument));
}

// Cut from main, a branch reads what its store and its nodes have; the rest fails in time.
TEST_F(CampusTest, ABranchThatIsCutOffReadsItsOwn) {
  const InodeId inode = names_.MakeFile(kRootInode, "own");
  const Content content = MakeContent(2 * kBlockBytes, 7);
  const ObjectId id = a1_.Write(inode, content, /*enqueue=*/false);
  a_.uplink->Cut();
  test::TestCampusNode a2(6, names_, a_);
  const auto read = a2.Read(id);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, content);
  b_.uplink->Cut();
  const auto attributes = *names_.Get(inode);
  auto object = *b1_.cache->FindOrCreate(id, attributes.size, attributes.root);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_THAT(b1_.data->fetcher().Ensure(object, 0, 1, Fetcher::Priority::kReader,
                                         Deadline::After(std::chrono::milliseconds(1500))),
              IsError(ErrorCode::kUnavailable));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
}

}  // namespace
}  // namespace quadfs::fs
