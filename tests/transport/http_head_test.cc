#include "transport/http_head.h"

#include "tests/support/matchers.h"

namespace quadfs::transport {
namespace {

using test::IsError;
using test::IsOk;

TEST(HttpHeadTest, ParsesWhatHandlersAsk) {
  const auto head = ParseHead(
      "PUT /v1/data/0%31.2?first=3&count=4&name=a%20b%26&flag HTTP/1.1\r\n"
      "Host: hub\r\nContent-Length: 17\r\nQuad-Deadline-Ms: 250\r\nExpect: 100-Continue\r\n\r\n");
  ASSERT_THAT(head, IsOk());
  EXPECT_EQ(head->method, "PUT");
  EXPECT_EQ(head->path, "/v1/data/01.2");
  EXPECT_EQ(head->query.at("first"), "3");
  EXPECT_EQ(head->query.at("name"), "a b&");
  EXPECT_EQ(head->query.at("flag"), "");
  EXPECT_EQ(head->headers.at("quad-deadline-ms"), "250");
  EXPECT_EQ(head->body_bytes, 17U);
  EXPECT_TRUE(head->keep_alive);
  EXPECT_TRUE(head->expects_continue);
  EXPECT_FALSE(ParseHead("GET / HTTP/1.1\r\nConnection: close\r\n\r\n")->keep_alive);
}

TEST(HttpHeadTest, FindsTheEndOnlyWithinTheLimit) {
  EXPECT_EQ(*FindHeadEnd("GET / HTTP/1.1\r\n\r\nbody"), 18U);
  EXPECT_EQ(*FindHeadEnd("GET / HTTP/1.1\r\n"), std::nullopt);
  EXPECT_THAT(FindHeadEnd(std::string(kMaxHeadBytes, 'x')), IsError(ErrorCode::kTooLarge));
  // An end behind the limit does not help.
  EXPECT_THAT(FindHeadEnd(std::string(kMaxHeadBytes, 'x') + "\r\n\r\n"),
              IsError(ErrorCode::kTooLarge));
}

TEST(HttpHeadTest, RefusesWhatIsNotARequest) {
  for (const std::string bad :
       {"\r\n\r\n", "hello\r\n\r\n", "GET\r\n\r\n", "GET  HTTP/1.1\r\n\r\n",
        "GET /%zz HTTP/1.1\r\n\r\n", "GET /% HTTP/1.1\r\n\r\n", "GET /%00 HTTP/1.1\r\n\r\n",
        "GET http://x/ HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "PUT / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "PUT / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET /?a=%q HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nA: \x01\r\n\r\n"}) {
    EXPECT_THAT(ParseHead(bad), IsError(ErrorCode::kInvalidArgument)) << bad;
  }
  EXPECT_THAT(ParseHead("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"),
              IsError(ErrorCode::kNotSupported));
  EXPECT_THAT(ParseHead("GET / HTTP/1.0\r\n\r\n"), IsError(ErrorCode::kNotSupported));
}

// Two lengths of one body are how requests are smuggled past checks.
TEST(HttpHeadTest, RefusesTwoLengthsOfOneBody) {
  EXPECT_FALSE(
      ParseHead("PUT / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n").ok());
}

}  // namespace
}  // namespace quadfs::transport
