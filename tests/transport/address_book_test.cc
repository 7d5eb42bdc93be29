#include "transport/address_book.h"

#include <gmock/gmock.h>

#include "transport/listen_socket.h"

namespace quadfs::transport {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
constexpr size_t kNone = AddressBook::kNone;

class AddressBookTest : public testing::Test {
 protected:
  AddressBook book_{{"first:1", "second:2", "third:3"}};
  Clock::TimePoint now_ = Clock::TimePoint() + std::chrono::hours(1);
};

TEST_F(AddressBookTest, TriesThemInTheGivenOrder) {
  EXPECT_THAT(book_.Order(kNone, now_), ElementsAre(0, 1, 2));
}

TEST_F(AddressBookTest, StaysWithTheOneThatWorked) {
  book_.Worked(1);
  EXPECT_THAT(book_.Order(kNone, now_), ElementsAre(1, 0, 2));
}

// A failed address is left alone, twice as long after each failure, up to a bound.
TEST_F(AddressBookTest, BacksOffAndComesBack) {
  for (auto expected = AddressBook::kFirstBackOff; expected < AddressBook::kMaxBackOff;
       expected *= 2) {
    book_.Failed(0, "refused", now_);
    EXPECT_THAT(book_.Order(kNone, now_ + expected - std::chrono::milliseconds(1)),
                ElementsAre(1, 2));
    now_ += expected;
    EXPECT_THAT(book_.Order(kNone, now_), ElementsAre(0, 1, 2));
  }
  for (int i = 0; i < 10; ++i) {
    book_.Failed(0, "refused", now_);
    now_ += AddressBook::kMaxBackOff;
    EXPECT_THAT(book_.Order(kNone, now_), ElementsAre(0, 1, 2));
  }
  book_.Failed(0, "refused", now_);
  book_.Worked(0);
  EXPECT_THAT(book_.Order(kNone, now_), ElementsAre(0, 1, 2));
}

// A hundred callers that fail at once are one failure.
TEST_F(AddressBookTest, FailuresTogetherCountOnce) {
  for (int i = 0; i < 100; ++i) book_.Failed(0, "refused", now_);
  EXPECT_THAT(book_.Order(kNone, now_ + AddressBook::kFirstBackOff), ElementsAre(0, 1, 2));
}

// While all are down, callers fail at once instead of each waiting for timeouts; but who has a
// connection uses it.
TEST_F(AddressBookTest, AllDownLeavesOnlyAnOpenConnection) {
  for (size_t i = 0; i < 3; ++i) book_.Failed(i, "refused", now_);
  EXPECT_THAT(book_.Order(kNone, now_), IsEmpty());
  EXPECT_THAT(book_.Order(2, now_), ElementsAre(2));
  book_.Reset();
  EXPECT_THAT(book_.Order(kNone, now_), ElementsAre(0, 1, 2));
}

TEST_F(AddressBookTest, FailuresNameEachAddressAndWhy) {
  book_.Failed(0, "connection refused", now_);
  book_.Failed(1, "timed out", now_);
  EXPECT_THAT(book_.Failures(), HasSubstr("first:1: connection refused; second:2: timed out"));
}

TEST(HostPortTest, TakesHostsAddressesAndBrackets) {
  EXPECT_EQ(ParseHostPort("hub-a:7440")->host, "hub-a");
  EXPECT_EQ(ParseHostPort("[::1]:7440")->host, "::1");
  EXPECT_EQ(ParseHostPort("10.1.2.3:65535")->port, "65535");
  for (const char* bad : {"", "hub", ":1", "hub:", "hub:70000", "hub:7x", "::1:7440", "a b:1",
                          "user@hub:1", "hub/x:1"}) {
    EXPECT_FALSE(ParseHostPort(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace quadfs::transport
