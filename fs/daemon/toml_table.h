#pragma once

#include <toml++/toml.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "transport/base/result.h"

namespace quadfs::daemon {

/// Reads the keys of one TOML table into variables, remembers their lines, and keeps the first
/// complaint, with file, line, key and what is allowed. Private to the configuration.
/// A key that is absent leaves its variable as it is.
class TomlTable {
 public:
  struct Check {
    std::function<bool(const std::string&)> good;
    std::string allowed;
  };

  /// `name`: "" at the top, else the table's. All references outlive the reader.
  TomlTable(const toml::table& table, std::string name, std::string file,
            std::map<std::string, int>& line_of, std::optional<Error>& first)
      : table_(table),
        name_(std::move(name)),
        file_(std::move(file)),
        line_of_(line_of),
        first_(first) {}

  void String(const char* key, std::string& out, const Check& check);
  void Strings(const char* key, std::vector<std::string>& out, const Check& check);
  /// A number of bytes or a string with a unit.
  void Bytes(const char* key, uint64_t& out, uint64_t least);
  /// A number of milliseconds or a string with a unit.
  void Milliseconds(const char* key, std::chrono::milliseconds& out, int64_t least, int64_t most);
  void Bool(const char* key, bool& out);
  std::optional<TomlTable> Table(const char* key);

  /// Complains about keys that are absent.
  void Required(std::initializer_list<const char*> keys);
  /// Complains about keys that nobody read.
  void NothingElse();

 private:
  const toml::node* Find(const char* key);
  void Complain(const toml::node* node, const std::string& key, const std::string& message);
  std::string FullName(const std::string& key) const {
    return name_.empty() ? key : name_ + "." + key;
  }

  const toml::table& table_;
  std::string name_, file_;
  std::map<std::string, int>& line_of_;
  std::optional<Error>& first_;
  std::set<std::string> known_;
};

}  // namespace quadfs::daemon
