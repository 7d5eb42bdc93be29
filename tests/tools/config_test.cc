#include "fs/daemon/config.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/cache_files.h"
#include "tests/support/matchers.h"

namespace quadfs::daemon {
namespace {

using test::IsError;
using test::IsOk;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kGood = R"(cluster = "0123456789abcdef"
campus = "a"
[hub]
listen = "0.0.0.0:7440"
advertise = ["hub-a:7440", "[fd00::1]:7440"]
store = "/srv/quadfs"
main = ["hub-main:7440"]
[node]
name = "a1"
hubs = ["hub-a:7440"]
cache_bytes = "1.5TB"
deadline_ms = "2s"
)";

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

/// The complaint about the good file with one change.
std::string Complaint(const std::string& what, const std::string& by) {
  const auto config = ParseConfig(Replaced(kGood, what, by), "quadfs.toml");
  return config.ok() ? "accepted" : config.error().message();
}

TEST(ConfigTest, ReadsEveryKindOfValueAndLeavesDefaults) {
  const auto config = ParseConfig(kGood, "quadfs.toml");
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->campus, "a");
  EXPECT_FALSE(config->hub->primary());
  EXPECT_EQ(config->hub->advertise[1], "[fd00::1]:7440");
  EXPECT_EQ(config->node->cache_bytes, 1'500'000'000'000U);
  EXPECT_EQ(config->node->deadline_ms, std::chrono::milliseconds(2000));
  EXPECT_EQ(config->node->mount, "/grid");
  EXPECT_EQ(config->writeback.limit_bytes_per_second, 200'000'000U);
  EXPECT_EQ(config->tls.key, "/var/lib/quadfs/tls/this.key");
  EXPECT_EQ(config->node_tls().certificate, "/var/lib/quadfs/tls/node.crt");
}

// Each mistake is one line that begins with file, line and key, and says what is allowed.
TEST(ConfigTest, EachMistakeIsOneLineWithFileLineKeyAndWhatIsAllowed) {
  const struct {
    const char *what, *by, *where, *allowed;
  } cases[] = {
      {"listen", "lisen", "quadfs.toml:4: hub.lisen: unknown key", "allowed: advertise, cache"},
      {"\"0.0.0.0:7440\"", "\"7440\"", "quadfs.toml:4: hub.listen:", "host:port"},
      {"\"0.0.0.0:7440\"", "7440", "quadfs.toml:4: hub.listen:", "host:port"},
      {"\"0.0.0.0:7440\"", "\"h:70000\"", "quadfs.toml:4: hub.listen:", "host:port"},
      {"[\"hub-main:7440\"]", "[]", "quadfs.toml:7: hub.main:", "1 to 16 strings"},
      {"[\"hub-main:7440\"]", "\"hub-main:7440\"", "quadfs.toml:7: hub.main:", "a list"},
      {"\"/srv/quadfs\"", "\"srv\"", "quadfs.toml:6: hub.store:", "an absolute path"},
      {"\"1.5TB\"", "\"1.5 parsecs\"", "quadfs.toml:11: node.cache_bytes:", "\"200MB\""},
      {"\"1.5TB\"", "-5", "quadfs.toml:11: node.cache_bytes:", "a number of bytes"},
      {"\"1.5TB\"", "\"4KiB\"", "quadfs.toml:11: node.cache_bytes:", "at least 8MiB"},
      {"\"2s\"", "5", "quadfs.toml:12: node.deadline_ms:", "100 to 3600000 milliseconds"},
      {"\"a1\"", "\"a 1\"", "quadfs.toml:9: node.name:", "letters, digits"},
      {"name = \"a1\"\n", "", "quadfs.toml:8: node.name: is missing", "no default"},
      {"campus = \"a\"\n", "", "quadfs.toml: campus: is missing", "no default"},
      {"[node]", "[knode]", "quadfs.toml:8: knode: unknown key", "node, run_dir"},
      {"[node]", "[node", "quadfs.toml:8: not TOML:", ""},
      {"deadline_ms = \"2s\"", "when_cut = \"maybe\"",
       "quadfs.toml:12: node.when_cut:", "\"fail\", \"wait\""},
      {"deadline_ms = \"2s\"", "allow_other = 1",
       "quadfs.toml:12: node.allow_other:", "true, false"},
      {"deadline_ms = \"2s\"", "cache = \"/var/cache/quadfs/hub\"",
       "quadfs.toml:12: node.cache:", "a directory of its own"},
  };
  for (const auto& one : cases) {
    const std::string complaint = Complaint(one.what, one.by);
    EXPECT_THAT(complaint, StartsWith(one.where)) << one.by;
    EXPECT_THAT(complaint, HasSubstr(one.allowed)) << one.by;
    EXPECT_EQ(complaint.find('\n'), std::string::npos) << complaint;
  }
}

TEST(ConfigTest, AMachineWithoutARoleIsRefused) {
  const auto config = ParseConfig("cluster = \"c\"\ncampus = \"a\"\n", "quadfs.toml");
  ASSERT_THAT(config, IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(config.error().message(), HasSubstr("[hub]"));
}

TEST(ConfigTest, WhatIsWrittenReadsBackTheSame) {
  auto config = ParseConfig(kGood, "quadfs.toml");
  ASSERT_THAT(config, IsOk());
  config->state_dir = "/tmp/st\"range\\dir";
  config->tls = {config->state_dir + "/tls/this.crt", config->state_dir + "/tls/this.key",
                 config->state_dir + "/tls/ca.crt"};
  config->node->allow_other = false;
  config->node->store_path = "/srv/quadfs";
  config->writeback.limit_bytes_per_second = 0;
  const auto again = ParseConfig(WriteConfig(*config), "quadfs.toml");
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(FlattenConfig(*again), FlattenConfig(*config));
}

TEST(ConfigTest, FlattenNamesEveryKeyThatTheExampleShows) {
  std::ifstream example(QUADFS_SOURCE_DIR "/packaging/quadfs.toml.example");
  std::string text((std::istreambuf_iterator<char>(example)), std::istreambuf_iterator<char>());
  // Commented keys are keys too: an example that the parser refuses would mislead.
  std::string bare;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_key = line.starts_with("# ") &&
                        (line.find(" = ") != std::string::npos || line.starts_with("# ["));
    bare += (is_key ? line.substr(2) : line) + "\n";
  }
  const auto config = ParseConfig(bare, "quadfs.toml.example");
  ASSERT_THAT(config, IsOk());
  for (const auto& [key, value] : FlattenConfig(*config)) {
    EXPECT_EQ(config->line_of.count(key), 1U) << key << " is not in the example";
  }
}

class ConfigFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string dir = folder_.path();
    for (const char* name : {"c", "k", "ca"}) std::ofstream(dir + "/" + name) << "x";
    ::chmod((dir + "/k").c_str(), 0600);
    text_ = "cluster = \"c\"\ncampus = \"a\"\n[tls]\ncertificate = \"" + dir + "/c\"\nkey = \"" +
            dir + "/k\"\nca = \"" + dir + "/ca\"\n[hub]\nstore = \"" + dir + "\"\n";
    path_ = dir + "/quadfs.toml";
  }
  Config Load() {
    std::ofstream(path_) << text_;
    auto config = LoadConfig(path_);
    EXPECT_THAT(config, IsOk());
    return *config;
  }

  test::TempDirectory folder_;
  std::string text_, path_;
};

TEST_F(ConfigFilesTest, EverythingThere) { EXPECT_THAT(CheckFiles(Load()), IsOk()); }

TEST_F(ConfigFilesTest, AKeyThatOthersCanReadIsRefused) {
  ::chmod((folder_.path() + "/k").c_str(), 0640);
  const auto checked = CheckFiles(Load());
  ASSERT_THAT(checked, IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(checked.error().message(), StartsWith(path_ + ":5: tls.key: "));
  EXPECT_THAT(checked.error().message(), HasSubstr("chmod 600"));
}

TEST_F(ConfigFilesTest, MissingFilesAreNamedWithTheirLine) {
  std::filesystem::remove(folder_.path() + "/ca");
  const auto checked = CheckFiles(Load());
  ASSERT_THAT(checked, IsError(ErrorCode::kInvalidArgument));
  EXPECT_THAT(checked.error().message(), StartsWith(path_ + ":6: tls.ca: "));
}

TEST_F(ConfigFilesTest, AMissingConfigurationSaysHowToMakeOne) {
  const auto config = LoadConfig(folder_.path() + "/none.toml");
  ASSERT_THAT(config, IsError(ErrorCode::kNotFound));
  EXPECT_THAT(config.error().message(), HasSubstr("quadfs init or quadfs join"));
}

TEST_F(ConfigFilesTest, AConfigurationThatAnyoneMayChangeIsRefused) {
  std::ofstream(path_) << text_;
  ::chmod(path_.c_str(), 0666);
  EXPECT_THAT(LoadConfig(path_), IsError(ErrorCode::kInvalidArgument));
}

}  // namespace
}  // namespace quadfs::daemon
