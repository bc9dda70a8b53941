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
#include <span>
#include <stdexcept>

#include "backend/ibverbs/proof.hpp"
#include "backend/ibverbs/reason.hpp"
#include "backend/ibverbs/sockets.hpp"
#include "backend/user_error.hpp"

namespace verbtwin::ibverbs {

namespace {

using Clock = std::chrono::steady_clock;

/// What the caller says first. Fixed in size: nothing in it decides what memory is taken.
struct SocketHello {
  Nonce nonce{};
  std::int32_t from = 0, to = 0;  // nodes
  std::int32_t thread = 0;
};
// README.md tells how much a stranger can make a rank read.
static_assert(sizeof(SocketHello) + sizeof(Digest) == 76);
static_assert(sizeof(Challenge) == 64);

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
      : mine_(mine), addresses_(addresses), token_(token) {}

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
  /// Somebody who is not known yet: a node that was called, or whoever has called here.
  struct Guest {
    enum class Awaited : std::uint8_t { kConnection, kChallenge, kHello, kProof };
    Descriptor connection;
    Clock::time_point deadline;
    Awaited awaited = Awaited::kHello;
    int node = -1;  // of one that was called
    SocketHello hello{};
    Challenge challenge{};
    Digest proof{};
    std::size_t have_b = 0;  // of what is awaited
    bool over = false;
    bool called() const { return node >= 0; }
    std::span<std::uint8_t> place() {
      const auto bytes = [](auto& value) {
        return std::span(reinterpret_cast<std::uint8_t*>(&value), sizeof value);
      };
      return awaited == Awaited::kHello   ? bytes(hello)
             : awaited == Awaited::kProof ? bytes(proof)
                                          : bytes(challenge);
    }
  };
  static constexpr std::size_t kStrangersMax = 128;
  static constexpr std::chrono::milliseconds kTimeToSpeak{200};

  void call(int node, int thread) {
    const SocketAddress& address = addresses_[static_cast<std::size_t>(node)];
    const AddressInfo info = resolve(address);
    Guest guest;
    guest.awaited = Guest::Awaited::kConnection;
    guest.node = node;
    guest.hello = {random_value<Nonce>(), mine_.node_, node, thread};
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
    const bool accepts = !is_full() || replaceable() != nullptr;  // poll() skips those below 0
    std::vector<pollfd> watched{{accepts ? mine_.listener_.get() : -1, POLLIN, 0}};
    for (const Guest& guest : guests_) {
      const short what = guest.awaited == Guest::Awaited::kConnection ? POLLOUT : POLLIN;
      watched.push_back({guest.connection.get(), what, 0});
    }
    if (::poll(watched.data(), watched.size(), 100) < 0 && errno != EINTR) {
      throw std::runtime_error(fmt::format("waiting for TCP connections: {}", std::strerror(errno)));
    }
    for (std::size_t i = 0; i < guests_.size(); ++i) {
      if (watched[i + 1].revents != 0) attend(guests_[i]);
      if (Clock::now() >= guests_[i].deadline) guests_[i].over = true;
    }
    std::erase_if(guests_, [](const Guest& guest) { return guest.over; });
    if (watched[0].revents != 0) accept();
  }

  void accept() {
    for (Guest* gone = nullptr; !is_full() || (gone = replaceable()) != nullptr;) {
      Guest guest;
      guest.connection =
          Descriptor(accept4(mine_.listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!guest.connection) {
        if (errno != EMFILE && errno != ENFILE) return;
        throw UserError("", "no more TCP connections" + reason(errno));
      }
      if (is_full()) guests_.erase(guests_.begin() + (gone - guests_.data()));
      guest.deadline = Clock::now() + kHelloTimeout;
      guests_.push_back(std::move(guest));
    }
  }

  static bool has_called(const Guest& guest) { return !guest.called(); }
  bool is_full() const {
    const std::size_t expected = mine_.workers_.size() * static_cast<std::size_t>(mine_.shape_.nodes);
    return static_cast<std::size_t>(std::ranges::count_if(guests_, has_called)) >= expected + kStrangersMax;
  }
  /// The oldest of those that have called and had time to speak; null: none has. A node speaks at once.
  Guest* replaceable() {
    const Clock::time_point now = Clock::now();
    const auto is_idle = [now](const Guest& guest) {
      return has_called(guest) && now >= guest.deadline - kHelloTimeout + kTimeToSpeak;
    };
    const auto oldest = std::ranges::find_if(guests_, is_idle);
    return oldest == guests_.end() ? nullptr : &*oldest;
  }

  void attend(Guest& guest) {
    if (guest.awaited == Guest::Awaited::kConnection) {
      int error = 0;
      socklen_t length = sizeof error;
      getsockopt(guest.connection.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error != 0) lost(guest, error);
      guest.awaited = Guest::Awaited::kChallenge;
      if (!says(guest, guest.hello)) lost(guest, errno);
      return;
    }
    const std::span<std::uint8_t> rest = guest.place().subspan(guest.have_b);
    const ssize_t taken = recv(guest.connection.get(), rest.data(), rest.size(), 0);
    if (taken < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (taken <= 0) {
      if (guest.called()) lost(guest, taken < 0 ? errno : ECONNRESET);
      guest.over = true;
      return;
    }
    guest.have_b += static_cast<std::size_t>(taken);
    if (guest.have_b < guest.place().size()) return;
    guest.have_b = 0;
    if (guest.awaited == Guest::Awaited::kHello) {
      challenge(guest);
    } else if (guest.awaited == Guest::Awaited::kChallenge) {
      answer(guest);
    } else {
      const bool known = same_digest(guest.proof, proof_by(Side::kTcpCaller, guest));
      known ? admit(guest, guest.hello.from) : end(guest);
    }
  }

  /// It fits into the buffer of a new connection.
  template <typename T>
  static bool says(const Guest& guest, const T& what) {
    return ::send(guest.connection.get(), &what, sizeof what, MSG_NOSIGNAL) == sizeof what;
  }
  Digest proof_by(Side side, const Guest& guest) const {
    return proof(side, token_, bytes_of(guest.hello), guest.challenge.nonce);
  }

  void challenge(Guest& guest) {
    const SocketHello& hello = guest.hello;
    // Who should have been called, or is here already, is not who it says.
    const bool expected = hello.thread >= 0 && hello.thread < mine_.shape_.threads && hello.from >= 0 &&
                          hello.from < mine_.node_ && hello.to == mine_.node_ &&
                          !mine_.of(hello.thread).has(hello.from);
    guest.challenge = challenge_for(Side::kTcpCalled, token_, bytes_of(hello));
    guest.awaited = Guest::Awaited::kProof;
    if (!expected || !says(guest, guest.challenge)) end(guest);
  }

  void answer(Guest& guest) {
    if (!same_digest(guest.challenge.proof, proof_by(Side::kTcpCalled, guest))) lost(guest, EPROTO);
    if (!says(guest, proof_by(Side::kTcpCaller, guest))) lost(guest, errno);
    admit(guest, guest.node);
  }

  static void end(Guest& guest) { guest.over = true; }

  void admit(Guest& guest, int node) {
    end(guest);
    TcpSockets& worker = mine_.of(guest.hello.thread);
    if (!worker.has(node)) worker.add(node, std::move(guest.connection));
  }

  [[noreturn]] void lost(const Guest& guest, int error) const {
    const SocketAddress& address = addresses_[static_cast<std::size_t>(guest.node)];
    throw std::runtime_error(fmt::format("rank {} at {}:{} cannot be reached by TCP: {}", guest.node,
                                         address.host, address.port, std::strerror(error)));
  }

  NodeSockets& mine_;
  const std::vector<SocketAddress>& addresses_;
  const std::string& token_;
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
