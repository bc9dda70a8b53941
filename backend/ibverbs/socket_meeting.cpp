// NodeSockets: every two nodes' workers of one index get to know each other over TCP.
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "backend/ibverbs/hello.hpp"
#include "backend/ibverbs/reason.hpp"
#include "backend/ibverbs/sockets.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::ibverbs {

namespace {

using Clock = std::chrono::steady_clock;

/// What either side says first. Fixed in size: nothing in it decides what memory is taken.
struct SocketHello {
  TokenText token{};
  std::int32_t node = 0;
  std::int32_t thread = 0;
};

[[noreturn]] void cannot_listen(const std::string& host) {
  throw std::runtime_error(fmt::format("cannot listen for TCP at {}: {}", host, std::strerror(errno)));
}

struct AddressInfoFree {
  void operator()(addrinfo* info) const { freeaddrinfo(info); }
};
using AddressInfo = std::unique_ptr<addrinfo, AddressInfoFree>;

AddressInfo resolve(const SocketAddress& address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    throw std::runtime_error(fmt::format("TCP address {}: {}", address.host, gai_strerror(error)));
  }
  return AddressInfo(found);
}

Descriptor open_socket(const addrinfo& info) {
  Descriptor made(socket(info.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made) throw std::runtime_error("no more TCP sockets" + reason(errno));
  return made;
}

}  // namespace

class NodeSockets::Meeting {
 public:
  Meeting(NodeSockets& mine, const std::vector<SocketAddress>& addresses, const std::string& token)
      : mine_(mine), addresses_(addresses), token_(token_text(token)) {}

  void hold(Clock::time_point deadline, const std::function<void()>& check) {
    for (int node = mine_.node_ + 1; node < mine_.shape_.nodes; ++node) {
      for (int thread = 0; thread < mine_.shape_.threads; ++thread) call(node, thread);
    }
    while (!complete()) {
      check();
      if (Clock::now() >= deadline) throw std::runtime_error(missing());
      look();
    }
  }

 private:
  /// Somebody whose hello is on its way: a node that was called, or a stranger at the listener.
  struct Guest {
    Descriptor connection;
    Clock::time_point deadline;
    int node = -1, thread = -1;  // of one that was called
    bool greeted = false;        // has our hello
    SocketHello hello;
    std::size_t have_b = 0;
    bool over = false;
    bool called() const { return node >= 0; }
  };
  static constexpr std::size_t kStrangersMax = 64;

  void call(int node, int thread) {
    const SocketAddress& address = addresses_[static_cast<std::size_t>(node)];
    const AddressInfo info = resolve(address);
    Guest guest;
    guest.node = node;
    guest.thread = thread;
    guest.deadline = Clock::time_point::max();  // the meeting's
    guest.connection = open_socket(*info);
    const int result = ::connect(guest.connection.get(), info->ai_addr, info->ai_addrlen);
    if (result != 0 && errno != EINPROGRESS) lost(guest, errno);
    guests_.push_back(std::move(guest));
  }

  bool complete() const {
    for (const auto& worker : mine_.workers_) {
      for (int node = 0; node < mine_.shape_.nodes; ++node) {
        if (node != mine_.node_ && !worker->has(node)) return false;
      }
    }
    return true;
  }

  std::string missing() const {
    for (const auto& worker : mine_.workers_) {
      for (int node = 0; node < mine_.shape_.nodes; ++node) {
        if (node != mine_.node_ && !worker->has(node)) {
          return fmt::format("rank {} did not connect by TCP in time", node);
        }
      }
    }
    return "";
  }

  /// Waits a little, then does what can be done.
  void look() {
    std::vector<pollfd> watched{{mine_.listener_.get(), POLLIN, 0}};
    for (const Guest& guest : guests_) {
      const short what = guest.called() && !guest.greeted ? POLLOUT : POLLIN;
      watched.push_back({guest.connection.get(), what, 0});
    }
    if (::poll(watched.data(), watched.size(), 100) < 0 && errno != EINTR) {
      throw std::runtime_error(fmt::format("waiting for TCP connections: {}", std::strerror(errno)));
    }
    const std::size_t before = guests_.size();
    if (watched[0].revents != 0) accept();
    for (std::size_t i = 0; i < before; ++i) {
      if (watched[i + 1].revents != 0) attend(guests_[i]);
      if (Clock::now() >= guests_[i].deadline) guests_[i].over = true;
    }
    std::erase_if(guests_, [](const Guest& guest) { return guest.over; });
  }

  void accept() {
    const std::size_t expected = mine_.workers_.size() * static_cast<std::size_t>(mine_.shape_.nodes);
    while (guests_.size() < expected + kStrangersMax) {
      Guest guest;
      guest.connection =
          Descriptor(accept4(mine_.listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!guest.connection) {
        if (errno != EMFILE && errno != ENFILE) return;
        throw UserError("", "no more TCP connections" + reason(errno));
      }
      guest.deadline = Clock::now() + kHelloTimeout;
      guests_.push_back(std::move(guest));
    }
  }

  void attend(Guest& guest) {
    if (guest.called() && !guest.greeted) {
      int error = 0;
      socklen_t length = sizeof error;
      getsockopt(guest.connection.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error != 0) lost(guest, error);
      if (!greet(guest, guest.thread)) lost(guest, errno);
      return;
    }
    auto* to = reinterpret_cast<std::byte*>(&guest.hello) + guest.have_b;
    const ssize_t taken = recv(guest.connection.get(), to, sizeof guest.hello - guest.have_b, 0);
    if (taken < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (taken <= 0) {
      if (guest.called()) lost(guest, taken < 0 ? errno : ECONNRESET);
      guest.over = true;
      return;
    }
    guest.have_b += static_cast<std::size_t>(taken);
    if (guest.have_b == sizeof guest.hello) admit(guest);
  }

  /// The hello fits into the buffer of a new connection.
  bool greet(Guest& guest, int thread) {
    const SocketHello hello{token_, mine_.node_, thread};
    guest.greeted = true;
    return ::send(guest.connection.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
  }

  void admit(Guest& guest) {
    guest.over = true;
    const SocketHello& hello = guest.hello;
    const bool known = same_token(hello.token, token_) && hello.thread >= 0 &&
                       hello.thread < mine_.shape_.threads && hello.node >= 0 &&
                       hello.node < mine_.shape_.nodes;
    if (guest.called()) {
      if (!known || hello.node != guest.node || hello.thread != guest.thread) lost(guest, EPROTO);
    } else {
      // Who should have been called, or is here already, is not who it says.
      if (!known || hello.node >= mine_.node_ || mine_.of(hello.thread).has(hello.node)) return;
      if (!greet(guest, hello.thread)) return;
    }
    mine_.of(hello.thread).add(hello.node, std::move(guest.connection));
  }

  [[noreturn]] void lost(const Guest& guest, int error) const {
    const SocketAddress& address = addresses_[static_cast<std::size_t>(guest.node)];
    throw std::runtime_error(fmt::format("rank {} at {}:{} cannot be reached by TCP: {}", guest.node,
                                         address.host, address.port, std::strerror(error)));
  }

  NodeSockets& mine_;
  const std::vector<SocketAddress>& addresses_;
  TokenText token_;
  std::vector<Guest> guests_;
};

NodeSockets::NodeSockets(const ClusterShape& shape, int node, const std::string& host)
    : shape_(shape), node_(node), address_{host, 0} {
  const AddressInfo info = resolve(address_);
  listener_ = open_socket(*info);
  if (bind(listener_.get(), info->ai_addr, info->ai_addrlen) != 0 ||
      listen(listener_.get(), SOMAXCONN) != 0) {
    cannot_listen(host);
  }
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  std::array<char, NI_MAXSERV> port{};
  if (getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&bound), length, nullptr, 0, port.data(), port.size(),
                  NI_NUMERICSERV) != 0) {
    cannot_listen(host);
  }
  address_.port = static_cast<std::uint16_t>(std::stoi(port.data()));
  for (int thread = 0; thread < shape.threads; ++thread) {
    workers_.push_back(std::make_unique<TcpSockets>(shape.nodes));
  }
}

NodeSockets::~NodeSockets() = default;

void NodeSockets::connect(const std::vector<SocketAddress>& addresses, const std::string& token,
                          std::chrono::milliseconds timeout, const std::function<void()>& check) {
  Meeting(*this, addresses, token).hold(Clock::now() + timeout, check);
  listener_ = Descriptor();
}

}  // namespace verbtwin::ibverbs
