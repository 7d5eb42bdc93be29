#include "transport/http_head.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

namespace quadfs::transport {
namespace {

namespace http = boost::beast::http;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool PercentDecode(std::string_view text, std::string& out) {
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return false;
    const int high = HexDigit(text[i + 1]);
    const int low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0) return false;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

Error BadRequest(std::string_view why) {
  return {ErrorCode::kInvalidArgument, "bad HTTP request: " + std::string(why)};
}

}  // namespace

Result<std::optional<size_t>> FindHeadEnd(std::string_view bytes) {
  const size_t end = bytes.substr(0, kMaxHeadBytes).find("\r\n\r\n");
  if (end != std::string_view::npos) return std::optional<size_t>(end + 4);
  if (bytes.size() >= kMaxHeadBytes) {
    return Error(ErrorCode::kTooLarge,
                 "request header above " + std::to_string(kMaxHeadBytes) + " bytes");
  }
  return std::optional<size_t>();
}

Result<void> ParseTarget(std::string_view target, RequestHead& out) {
  if (!target.starts_with('/')) return BadRequest("the target does not begin with '/'");
  const size_t mark = target.find('?');
  if (!PercentDecode(target.substr(0, mark), out.path) ||
      out.path.find('\0') != std::string::npos) {
    return BadRequest("the path is not percent-encoded as it should");
  }
  std::string_view query = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = pair.find('=');
    std::string name;
    std::string value;
    if (!PercentDecode(pair.substr(0, equals), name) ||
        (equals != std::string_view::npos && !PercentDecode(pair.substr(equals + 1), value))) {
      return BadRequest("the query is not percent-encoded as it should");
    }
    out.query[name] = std::move(value);
  }
  return {};
}

Result<RequestHead> ParseHead(std::string_view head) {
  http::request_parser<http::empty_body> parser;
  parser.header_limit(kMaxHeadBytes);
  parser.body_limit(boost::none);
  parser.skip(true);  // The body is read without the parser.
  boost::beast::error_code failed;
  const size_t used = parser.put(boost::asio::buffer(head.data(), head.size()), failed);
  if (failed && failed != http::error::need_more) return BadRequest(failed.message());
  if (!parser.is_header_done() || used != head.size()) return BadRequest("malformed header");
  const auto& message = parser.get();
  if (message.version() != 11) return Error(ErrorCode::kNotSupported, "HTTP/1.1 only");
  if (message.find(http::field::transfer_encoding) != message.end()) {
    return Error(ErrorCode::kNotSupported, "announce the body's length with Content-Length");
  }
  RequestHead out;
  out.method = std::string(message.method_string());
  const auto target = message.target();
  if (auto parsed = ParseTarget({target.data(), target.size()}, out); !parsed.ok()) {
    return std::move(parsed).error();
  }
  for (const auto& field : message) {
    out.headers[LowerCase({field.name_string().data(), field.name_string().size()})] =
        std::string(field.value());
  }
  if (const auto length = parser.content_length(); length) out.body_bytes = *length;
  out.keep_alive = message.keep_alive();
  if (const auto expect = out.headers.find("expect"); expect != out.headers.end()) {
    out.expects_continue = LowerCase(expect->second) == "100-continue";
  }
  return out;
}

}  // namespace quadfs::transport
