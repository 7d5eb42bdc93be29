#include "control_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>

#include "tun_device.h"

namespace quadfs::lab {
namespace {

constexpr size_t kMaxRequestBytes = 512;
constexpr int kRequestTimeoutMs = 2000;

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Reads up to the end of the line; empty if the client sends none in time.
std::string ReadRequest(int fd) {
  std::string request;
  std::array<char, kMaxRequestBytes> chunk;
  while (request.size() < kMaxRequestBytes) {
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, kRequestTimeoutMs) <= 0) return {};
    const ssize_t size = read(fd, chunk.data(), chunk.size());
    if (size <= 0) return {};
    request.append(chunk.data(), static_cast<size_t>(size));
    if (const size_t end = request.find('\n'); end != std::string::npos) {
      return request.substr(0, end);
    }
  }
  return {};
}

void WriteDirection(std::ostream& out, const LinkDirection& direction) {
  const LinkCounters& counters = direction.counters();
  out << "{\"cut\":" << (direction.is_cut() ? "true" : "false") << ",\"bytes\":" << counters.bytes
      << ",\"packets\":" << counters.packets << ",\"packets_lost\":" << counters.lost
      << ",\"packets_overflowed\":" << counters.overflowed << ",\"packets_cut\":" << counters.cut
      << "}";
}

}  // namespace

ControlServer::ControlServer(const std::string& socket_path, LinkSettings& settings,
                             LinkDirection& a_to_b, LinkDirection& b_to_a)
    : listen_fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      settings_(settings),
      a_to_b_(a_to_b),
      b_to_a_(b_to_a) {
  if (listen_fd_ < 0) Fail("socket", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) Fail(socket_path, ENAMETOOLONG);
  socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (bind(listen_fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listen_fd_, 16) != 0) {
    Fail(socket_path, errno);
  }
}

void ControlServer::Serve() {
  while (true) {
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      Fail("accept", errno);
    }
    if (const std::string request = ReadRequest(fd); !request.empty()) {
      const std::string answer = Answer(request) + "\n";
      // A client that has gone does not want the answer.
      [[maybe_unused]] const ssize_t sent = send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
    close(fd);
  }
}

std::string ControlServer::Answer(const std::string& request) {
  std::istringstream words(request);
  std::string verb;
  words >> verb;
  std::string rest;
  std::getline(words >> std::ws, rest);
  if (verb == "status") return Status();
  if (verb == "set") return Set(rest);
  if (verb == "cut") return Cut(rest);
  if (verb == "heal") {
    a_to_b_.SetCut(false);
    b_to_a_.SetCut(false);
    return "ok";
  }
  return "error: unknown request " + verb;
}

std::string ControlServer::Status() const {
  std::ostringstream out;
  out << "{\"rate_bits_per_s\":" << settings_.rate_bits_per_s << ",\"rtt_ns\":" << settings_.rtt_ns
      << ",\"loss\":" << settings_.loss << ",\"corrupt\":" << settings_.corrupt << ",\"ab\":";
  WriteDirection(out, a_to_b_);
  out << ",\"ba\":";
  WriteDirection(out, b_to_a_);
  out << "}";
  return out.str();
}

std::string ControlServer::Set(const std::string& assignments) {
  uint64_t rate_bits_per_s = settings_.rate_bits_per_s;
  int64_t rtt_ns = settings_.rtt_ns;
  double loss = settings_.loss;
  double corrupt = settings_.corrupt;
  std::istringstream words(assignments);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) return "error: not KEY=VALUE: " + word;
    const std::string key = word.substr(0, equals);
    const std::string_view value = std::string_view(word).substr(equals + 1);
    bool valid = false;
    if (key == "rate_bits_per_s") {
      const auto number = ParseNumber<uint64_t>(value);
      valid = number.has_value();
      rate_bits_per_s = number.value_or(0);
    } else if (key == "rtt_ns") {
      const auto number = ParseNumber<int64_t>(value);
      valid = number.has_value() && *number >= 0;
      rtt_ns = number.value_or(0);
    } else if (key == "loss" || key == "corrupt") {
      const auto number = ParseNumber<double>(value);
      valid = number.has_value() && *number >= 0 && *number <= 1;
      (key == "loss" ? loss : corrupt) = number.value_or(0);
    }
    if (!valid) return "error: cannot set " + word;
  }
  settings_.rate_bits_per_s = rate_bits_per_s;
  settings_.rtt_ns = rtt_ns;
  settings_.loss = loss;
  settings_.corrupt = corrupt;
  a_to_b_.Wake();
  b_to_a_.Wake();
  return "ok";
}

std::string ControlServer::Cut(const std::string& direction) {
  if (direction != "ab" && direction != "ba" && direction != "both") {
    return "error: cut ab, ba or both";
  }
  if (direction != "ba") a_to_b_.SetCut(true);
  if (direction != "ab") b_to_a_.SetCut(true);
  return "ok";
}

}  // namespace quadfs::lab
