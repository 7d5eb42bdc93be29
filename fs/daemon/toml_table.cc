#include "fs/daemon/toml_table.h"

#include "fs/daemon/units.h"

namespace quadfs::daemon {
namespace {

std::string Shown(const toml::node& node) {
  std::ostringstream text;
  node.visit([&text](const auto& value) { text << value; });
  return text.str().substr(0, 80);
}

}  // namespace

const toml::node* TomlTable::Find(const char* key) {
  known_.insert(key);
  const toml::node* node = table_.get(key);
  if (node != nullptr) line_of_[FullName(key)] = static_cast<int>(node->source().begin.line);
  return node;
}

void TomlTable::Complain(const toml::node* node, const std::string& key,
                         const std::string& message) {
  if (first_) return;
  std::string where = file_;
  if (node != nullptr) where += ":" + std::to_string(node->source().begin.line);
  first_ = Error(ErrorCode::kInvalidArgument, where + ": " + FullName(key) + ": " + message);
}

void TomlTable::String(const char* key, std::string& out, const Check& check) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  const auto value = node->value_exact<std::string>();
  if (!value || !check.good(*value)) {
    Complain(node, key, Shown(*node) + " is not valid; allowed: " + check.allowed);
    return;
  }
  out = *value;
}

void TomlTable::Strings(const char* key, std::vector<std::string>& out, const Check& check) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  const toml::array* list = node->as_array();
  const std::string allowed = "; allowed: a list of 1 to 16 strings, each " + check.allowed;
  if (list == nullptr || list->empty() || list->size() > 16) {
    Complain(node, key, Shown(*node) + " is not valid" + allowed);
    return;
  }
  std::vector<std::string> read;
  for (const toml::node& item : *list) {
    const auto value = item.value_exact<std::string>();
    if (!value || !check.good(*value)) {
      Complain(&item, key, Shown(item) + " is not valid" + allowed);
      return;
    }
    read.push_back(*value);
  }
  out = std::move(read);
}

void TomlTable::Bytes(const char* key, uint64_t& out, uint64_t least) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  uint64_t bytes = 0;
  bool good = false;
  if (const auto number = node->value_exact<int64_t>()) {
    good = *number >= 0;
    bytes = static_cast<uint64_t>(good ? *number : 0);
  } else if (const auto text = node->value_exact<std::string>()) {
    const auto parsed = ParseBytes(*text);
    good = parsed.ok();
    if (good) bytes = *parsed;
  }
  if (!good || bytes < least) {
    Complain(node, key,
             Shown(*node) +
                 " is not valid; allowed: a number of bytes or a string such as \"200MB\", "
                 "\"1TiB\"" +
                 (least > 0 ? ", at least " + ExactBytes(least) : ""));
    return;
  }
  out = bytes;
}

void TomlTable::Milliseconds(const char* key, std::chrono::milliseconds& out, int64_t least,
                             int64_t most) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  std::optional<int64_t> value = node->value_exact<int64_t>();
  if (const auto text = node->value_exact<std::string>()) {
    if (const auto parsed = ParseDuration(*text); parsed.ok()) value = parsed->count();
  }
  if (!value || *value < least || *value > most) {
    Complain(node, key,
             Shown(*node) + " is not valid; allowed: " + std::to_string(least) + " to " +
                 std::to_string(most) + " milliseconds, or a string such as \"5s\"");
    return;
  }
  out = std::chrono::milliseconds(*value);
}

void TomlTable::Bool(const char* key, bool& out) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  const auto value = node->value_exact<bool>();
  if (!value) {
    Complain(node, key, Shown(*node) + " is not valid; allowed: true, false");
    return;
  }
  out = *value;
}

std::optional<TomlTable> TomlTable::Table(const char* key) {
  const toml::node* node = Find(key);
  if (node == nullptr) return std::nullopt;
  const toml::table* table = node->as_table();
  if (table == nullptr) {
    Complain(node, key, "is not a table; allowed: [" + FullName(key) + "]");
    return std::nullopt;
  }
  return TomlTable(*table, FullName(key), file_, line_of_, first_);
}

void TomlTable::Required(std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (table_.get(key) == nullptr) {
      Complain(name_.empty() ? nullptr : &table_, key, "is missing and has no default");
    }
  }
}

void TomlTable::NothingElse() {
  std::string allowed;
  for (const std::string& key : known_) allowed += (allowed.empty() ? "" : ", ") + key;
  for (const auto& [key, node] : table_) {
    const std::string name(key.str());
    if (known_.count(name) > 0 || first_) continue;
    first_ = Error(ErrorCode::kInvalidArgument,
                   file_ + ":" + std::to_string(key.source().begin.line) + ": " + FullName(name) +
                       ": unknown key; allowed: " + allowed);
  }
}

}  // namespace quadfs::daemon
