// Names with several addresses, or none yet: where rank 0 listens, and where the others look for it.
#include "backend/ibverbs/joining.hpp"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/ibverbs/rendezvous.hpp"

using namespace std::chrono_literals;

using Addresses = std::vector<std::string>;
static std::map<std::string, Addresses> made_up_names;  // not changed while anybody asks
static std::atomic<int> answers_before_the_first{0};    // of a name server that is asked too often

/// IPv4 alone, as a stranger's list: freeaddrinfo(3) frees each entry with its address behind it.
static addrinfo* list_of(const Addresses& addresses, const char* port) {
  addrinfo* first = nullptr;
  addrinfo** last = &first;
  for (const std::string& address : addresses) {
    auto* entry = static_cast<addrinfo*>(std::calloc(1, sizeof(addrinfo) + sizeof(sockaddr_in)));
    auto* at = reinterpret_cast<sockaddr_in*>(entry + 1);
    at->sin_family = AF_INET;
    at->sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
    inet_pton(AF_INET, address.c_str(), &at->sin_addr);
    *entry = {};
    entry->ai_family = AF_INET;
    entry->ai_socktype = SOCK_STREAM;
    entry->ai_protocol = IPPROTO_TCP;
    entry->ai_addrlen = sizeof *at;
    entry->ai_addr = reinterpret_cast<sockaddr*>(at);
    *last = entry;
    last = &entry->ai_next;
  }
  return first;
}

extern "C" int getaddrinfo(const char* host, const char* port, const addrinfo* hints, addrinfo** found) {
  static const auto original = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string_view name = host == nullptr ? "" : host;
  if (name == "slow.invalid") std::this_thread::sleep_for(5s);
  if (name == "busy.invalid" && answers_before_the_first-- > 0) return EAI_AGAIN;
  const auto known = made_up_names.find(std::string(name));
  if (known == made_up_names.end()) return original(host, port, hints, found);
  *found = list_of(known->second, port);
  return 0;
}

namespace verbtwin::ibverbs {
namespace {

using testing::HasSubstr;

/// What others reach this machine at; empty: it is on no network.
std::string own_address() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* i = all; i != nullptr && found.empty(); i = i->ifa_next) {
    const bool usable = (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable || i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof text);
    found = text;
  }
  freeifaddrs(all);
  return found;
}

std::uint16_t free_port() {
  boost::asio::io_context io;
  using boost::asio::ip::tcp;
  return tcp::acceptor(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)).local_endpoint().port();
}

class JoiningTest : public testing::Test {
 protected:
  ~JoiningTest() override { made_up_names.clear(); }

  /// What rank `rank` of two says of why it cannot meet the other one; empty: it can.
  std::future<std::string> meeting(int rank, const std::string& host) const {
    RendezvousOptions o;
    o.rank = rank;
    o.ranks = 2;
    o.host = host;
    o.port = port_;
    o.token = "0123456789abcdef";
    o.version = "1.2.3";
    o.timeout = 10s;
    return std::async(std::launch::async, [o]() -> std::string {
      try {
        Rendezvous rendezvous(o);
        rendezvous.share("ending", "", 10s);
        return "";
      } catch (const std::exception& error) {
        return error.what();
      }
    });
  }

  /// Of the loopback interface, on which this is where nobody answers: its queue of connections is full.
  class BlackHole {
   public:
    explicit BlackHole(const char* address, std::uint16_t port) {
      at_.sin_family = AF_INET;
      at_.sin_port = htons(port);
      inet_pton(AF_INET, address, &at_.sin_addr);
      listening_ = open();
      EXPECT_EQ(bind(listening_, reinterpret_cast<sockaddr*>(&at_), sizeof at_), 0);
      EXPECT_EQ(listen(listening_, 0), 0);
      for (int i = 0; i < 4; ++i) {
        waiting_.push_back(open());
        static_cast<void>(connect(waiting_.back(), reinterpret_cast<sockaddr*>(&at_), sizeof at_));
      }
    }
    ~BlackHole() {
      close(listening_);
      for (const int fd : waiting_) close(fd);
    }
    BlackHole(const BlackHole&) = delete;
    BlackHole& operator=(const BlackHole&) = delete;

   private:
    static int open() { return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }
    sockaddr_in at_{};
    int listening_;
    std::vector<int> waiting_;
  };

  const std::uint16_t port_ = free_port();
};

TEST_F(JoiningTest, AnAddressThatDoesNotAnswerHoldsNobodyUp) {
  const BlackHole hole("127.0.0.2", port_);
  made_up_names["two.invalid"] = {"127.0.0.2", "127.0.0.1"};
  const auto begin = std::chrono::steady_clock::now();
  auto hub = meeting(0, "127.0.0.1");
  EXPECT_EQ(meeting(1, "two.invalid").get(), "");
  EXPECT_EQ(hub.get(), "");
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 2s) << "the first one did answer";
}

TEST_F(JoiningTest, RankZeroListensAtAllAddressesOfItsName) {
  const std::string own = own_address();
  if (own.empty()) GTEST_SKIP() << "this machine is on no network";
  made_up_names["here.invalid"] = {"127.0.1.1", "198.51.100.7", own};
  for (const char* seen : {own.c_str(), "here.invalid"}) {
    auto hub = meeting(0, "here.invalid");
    EXPECT_EQ(meeting(1, seen).get(), "") << seen;
    EXPECT_EQ(hub.get(), "");
  }
}

TEST_F(JoiningTest, AnAddressOfAnotherMachineIsNoPlaceToListen) {
  made_up_names["moved.invalid"] = {"127.0.1.1", "198.51.100.7"};
  EXPECT_THAT(meeting(0, "moved.invalid").get(),
              HasSubstr("cannot listen: Cannot assign requested address at 198.51.100.7"));
}

TEST_F(JoiningTest, ANameServerThatIsBusyIsAskedAgain) {
  made_up_names["busy.invalid"] = {"127.0.0.1"};
  answers_before_the_first = 2;
  auto hub = meeting(0, "127.0.0.1");
  EXPECT_EQ(meeting(1, "busy.invalid").get(), "");
  EXPECT_EQ(hub.get(), "");
  EXPECT_LT(answers_before_the_first, 0);
}

}  // namespace
}  // namespace verbtwin::ibverbs
