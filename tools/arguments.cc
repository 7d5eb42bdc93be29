// The command line of quadfs: names, options and help of every command.
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>

#include "fs/daemon/version.h"
#include "tools/commands.h"

namespace quadfs::tools {
namespace {

constexpr const char* kFooter =
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 not reachable, 4 not finished in time or not "
    "all.";

using Run = std::function<int()>;

class Arguments {
 public:
  explicit Arguments(Common& common)
      : common_(common), app_("One file tree on every campus.", "quadfs") {
    app_.require_subcommand(1);
    app_.footer(kFooter);
    app_.set_version_flag("--version", std::string("quadfs ") + daemon::kVersion);
    app_.add_option("--config,-c", common_.config, "quadfs.toml, or its directory")
        ->capture_default_str();
    app_.add_option("--state-dir", common_.state_dir, "default: as quadfs.toml says");
    app_.add_option("--run-dir", common_.run_dir, "default: as quadfs.toml says");
    app_.add_flag("--json", common_.json, "answer as one line of JSON");
    AddMembership();
    AddMounting();
    AddPaths();
  }
  CLI::App& app() { return app_; }
  int RunChosen() { return run_(); }
  bool HasCommand(const std::string& name) {
    for (const CLI::App* command : app_.get_subcommands([](CLI::App*) { return true; })) {
      if (command->get_name() == name) return true;
    }
    return false;
  }

 private:
  CLI::App* Add(const char* name, const char* help, Run run) {
    CLI::App* command = app_.add_subcommand(name, help);
    command->fallthrough();
    command->footer(kFooter);
    command->callback([this, run] { run_ = run; });
    return command;
  }

  void AddMembership() {
    CLI::App* init = Add("init", "make a new cluster, with this machine as main's hub",
                         [this] { return RunInit(common_, init_); });
    init->add_flag("--single", init_.single,
                   "hub and mount in one process on this machine: a pilot");
    init->add_option("--cluster", init_.cluster, "its name, for people")->capture_default_str();
    init->add_option("--campus", init_.campus, "name of this campus")->capture_default_str();
    init->add_option("--listen", init_.listen,
                     "host:port; default 0.0.0.0:7440, with --single 127.0.0.1:7440");
    init->add_option("--advertise", init_.advertise,
                     "host:port by which others reach it (may be repeated)");
    init->add_option("--store", init_.store, "the archive: a plain directory tree")
        ->capture_default_str();
    init->add_option("--cache", init_.cache, "cache directory; default /var/cache/quadfs/…");
    init->add_option("--cache-bytes", init_.cache_bytes, "limit of each cache, such as 500GiB");
    init->add_option("--mount", init_.mount, "also mount here (default with --single: /grid)");
    init->add_option("--node-name", init_.node_name,
                     "name of this machine as a node; default: its host name");

    CLI::App* token =
        Add("token", "print a line with which a campus or node may join, once (at main, root)",
            [this] { return RunToken(common_, token_); });
    token->add_option("--role", token_.role, "what joins")
        ->required()
        ->check(CLI::IsMember({"hub", "node"}));
    token->add_option("--campus", token_.campus, "a new campus (hub), or the node's")->required();
    token->add_option("--name", token_.name, "name of the node; default: its host name");
    token->add_option("--valid", token_.valid, "how long, 10s to 30d")->capture_default_str();

    CLI::App* join = Add("join", "join a cluster; the token comes on standard input or from a file",
                         [this] { return RunJoin(common_, join_); });
    join->add_option("--hub", join_.hubs,
                     "host:port of the hub to ask: main's for a campus, the campus's for "
                     "a node (may be repeated)")
        ->required();
    join->add_option("--token-file", join_.token_file, "read the token there (mode 0600)");
    join->add_option("--listen", join_.listen, "hub: host:port; default 0.0.0.0:7440");
    join->add_option("--advertise", join_.advertise, "hub: host:port by which its nodes reach it");
    join->add_option("--store", join_.store, "hub: the campus's storage, a directory");
    join->add_option("--mount", join_.mount, "node: where the tree appears")->capture_default_str();
    join->add_option("--cache", join_.cache, "cache directory; default /var/cache/quadfs/…");
    join->add_option("--cache-bytes", join_.cache_bytes, "its limit, such as 1800GB");
    join->add_option("--store-path", join_.store_path,
                     "node: where it mounts the campus's storage, if it does");
    join->add_option("--name", join_.name,
                     "node: its name, if the token leaves it open; default: its host name");
    join->add_option("--when-cut", join_.when_cut, "node: fail or wait while a line is cut")
        ->check(CLI::IsMember({"fail", "wait"}));
    join->add_option("--timeout", join_.timeout, "give up after")->capture_default_str();
  }

  void AddMounting() {
    CLI::App* mount = Add("mount", "mount the tree, starting quadfsd if it does not run (root)",
                          [this] { return RunMount(common_, mount_); });
    mount->add_option("--options,-o", mount_.options, "as in fstab: ro,nosuid,…");
    mount->add_option("--timeout", mount_.timeout, "give up after")->capture_default_str();
    CLI::App* umount = Add("umount", "publish what was changed and unmount (root)",
                           [this] { return RunUmount(common_, umount_); });
    umount->add_flag("--lazy,-l", umount_.lazy, "also while programs use it");
    umount->add_option("--timeout", umount_.timeout, "give up after")->capture_default_str();
    Add("status", "is everything connected, what is queued, what is wrong",
        [this] { return RunStatus(common_); });
    Add("version", "versions of this command and of the daemon",
        [this] { return RunVersion(common_); });
  }

  CLI::App* AddPathCommand(const char* name, const char* help,
                           int (*run)(const Common&, const PathsOptions&), bool required = true) {
    CLI::App* command = Add(name, help, [this, run] { return run(common_, paths_); });
    CLI::Option* paths = command->add_option("PATH", paths_.paths, "files and directories");
    if (required) paths->required();
    return command;
  }

  void AddPaths() {
    AddPathCommand("where", "which campuses and nodes hold a path", RunWhere);
    CLI::App* prefetch =
        AddPathCommand("prefetch", "bring a path into this node's cache", RunPrefetch);
    bool* background = &paths_.background;
    prefetch->add_flag("--background", *background, "queue it and return");
    prefetch->add_flag("--wait{false}", *background, "return when it is here (as without it)");
    prefetch->add_option("--timeout", paths_.timeout, "give up after; default: never");
    CLI::App* sync = AddPathCommand(
        "sync", "wait until what was written is safe; without a path: all of this node", RunSync,
        /*required=*/false);
    sync->add_option("--until", paths_.until, "how safe")
        ->capture_default_str()
        ->check(CLI::IsMember({"local", "campus", "archived", "verified"}));
    sync->add_option("--timeout", paths_.timeout, "give up after; default: never");
    AddPathCommand("evict", "give this node's cache space back", RunEvict);
    AddPathCommand("pin", "keep a path in this node's cache", RunPin);
    AddPathCommand("unpin", "undo pin", RunUnpin);
  }

  Common& common_;
  CLI::App app_;
  Run run_;
  InitOptions init_;
  TokenOptions token_;
  JoinOptions join_;
  MountOptions mount_;
  UmountOptions umount_;
  PathsOptions paths_;
};

}  // namespace

int Main(int argc, char** argv) {
  Common common;
  Arguments arguments(common);
  try {
    arguments.app().parse(argc, argv);
  } catch (const CLI::Success& done) {
    return arguments.app().exit(done);
  } catch (const CLI::ParseError& error) {
    if (argc > 1 && argv[1][0] != '-' && !arguments.HasCommand(argv[1])) {
      std::fprintf(stderr, "quadfs: no command %s; quadfs --help shows what there is\n", argv[1]);
      return kUsage;
    }
    std::fprintf(stderr, "quadfs: %s; quadfs --help shows what is allowed\n", error.what());
    return kUsage;
  }
  // A daemon that is started from here runs elsewhere.
  std::error_code error;
  common.config = std::filesystem::absolute(common.config, error).lexically_normal().string();
  struct stat status {};
  if (::stat(common.config.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    common.config += "/quadfs.toml";
  }
  return arguments.RunChosen();
}

}  // namespace quadfs::tools
