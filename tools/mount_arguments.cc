#include "tools/mount_arguments.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "fs/daemon/units.h"

namespace quadfs::tools {
namespace {

/// For mount(8), fstab and systemd; the kernel does not know them.
constexpr std::array<std::string_view, 14> kNotForTheKernel{
    "_netdev", "nofail", "auto",     "noauto", "user", "nouser", "users",
    "owner",   "group",  "defaults", "rw",     "loud", "silent", "nomand"};

Result<void> TakeOptions(const std::string& list, MountArguments& out) {
  for (size_t begin = 0; begin < list.size();) {
    const size_t comma = std::min(list.find(',', begin), list.size());
    const std::string option = list.substr(begin, comma - begin);
    begin = comma + 1;
    if (option.empty() || option.starts_with("x-") || option.starts_with("comment=")) continue;
    if (std::find(kNotForTheKernel.begin(), kNotForTheKernel.end(), option) !=
        kNotForTheKernel.end())
      continue;
    if (option.starts_with("config=")) {
      out.config = option.substr(7);
    } else if (option.starts_with("timeout=")) {
      out.timeout = QUADFS_TRY(daemon::ParseDuration(option.substr(8)));
    } else {
      out.options += (out.options.empty() ? "" : ",") + option;
    }
  }
  return {};
}

}  // namespace

Result<MountArguments> ParseMountArguments(const std::vector<std::string>& words) {
  MountArguments out;
  std::vector<std::string> names;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.size() < 2 || word[0] != '-') {
      names.push_back(word);
      continue;
    }
    if (word == "-o" || word == "-N" || word == "-t") {
      if (++i == words.size()) return Error(ErrorCode::kInvalidArgument, word + " needs a value");
      if (word == "-o") QUADFS_TRY(TakeOptions(words[i], out));
      continue;
    }
    for (const char flag : word.substr(1)) {
      if (flag == 'f') out.fake = true;
      if (std::string_view("sfnvrw").find(flag) == std::string_view::npos) {
        return Error(ErrorCode::kInvalidArgument, "unknown option " + word);
      }
      if (flag == 'r') out.options += out.options.empty() ? "ro" : ",ro";
    }
  }
  if (names.size() != 2) {
    return Error(ErrorCode::kInvalidArgument,
                 "usage: mount.quadfs SOURCE TARGET [-sfnv] [-o OPTIONS]");
  }
  out.target = names[1];
  while (out.target.size() > 1 && out.target.ends_with('/')) out.target.pop_back();
  return out;
}

}  // namespace quadfs::tools
