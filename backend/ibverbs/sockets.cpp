#include "backend/ibverbs/sockets.hpp"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "backend/ibverbs/keepalive.hpp"

namespace verbtwin::ibverbs {

namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

std::string towards(int node) {
  return fmt::format("the TCP connection to rank {}", node);
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

TcpSockets::TcpSockets(int nodes)
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), connections_(static_cast<std::size_t>(nodes)) {
  if (!epoll_) fail("epoll", errno);
}

void TcpSockets::add(int node, Descriptor connection) {
  const int on = 1;
  setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  notice_lost_machines(connection.get());
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = static_cast<std::uint32_t>(node);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.get(), &event) != 0) fail("epoll", errno);
  connections_[static_cast<std::size_t>(node)] = std::move(connection);
}

std::size_t TcpSockets::poll(std::span<SocketReady> ready) {
  std::array<epoll_event, 64> events;
  const auto most = static_cast<int>(std::min(events.size(), ready.size()));
  const int count = epoll_wait(epoll_.get(), events.data(), most, 0);
  if (count < 0) {
    if (errno == EINTR) return 0;
    fail("epoll_wait", errno);
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    // A broken connection is readable: receive() tells what it is.
    const bool readable = (events[i].events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0;
    const bool writable = (events[i].events & EPOLLOUT) != 0;
    ready[i] = {static_cast<std::int32_t>(events[i].data.u32), readable, writable};
  }
  return static_cast<std::size_t>(count);
}

std::size_t TcpSockets::send(int node, std::span<const std::byte> bytes) {
  const ssize_t taken = ::send(fd(node), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (taken < 0) {
    if (errno == EAGAIN || errno == EINTR) return 0;
    fail(towards(node) + " broke", errno);
  }
  bytes_moved_ += static_cast<std::uint64_t>(taken);
  return static_cast<std::size_t>(taken);
}

std::size_t TcpSockets::receive(int node, std::span<std::byte> into) {
  const ssize_t taken = recv(fd(node), into.data(), into.size(), 0);
  if (taken < 0) {
    if (errno == EAGAIN || errno == EINTR) return 0;
    fail(towards(node) + " broke", errno);
  }
  if (taken == 0 && !into.empty()) throw std::runtime_error(towards(node) + " was closed by it");
  bytes_moved_ += static_cast<std::uint64_t>(taken);
  return static_cast<std::size_t>(taken);
}

void TcpSockets::want_room(int node, bool wanted) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (wanted) event.events |= EPOLLOUT;
  event.data.u32 = static_cast<std::uint32_t>(node);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd(node), &event) != 0) fail("epoll", errno);
}

std::optional<NetworkInterface> find_ipoib_interface() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    constexpr unsigned kUp = IFF_UP | IFF_RUNNING;  // up, and its link too
    if ((one->ifa_flags & kUp) != kUp || one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET)
      continue;
    int type = 0;
    std::ifstream(fmt::format("/sys/class/net/{}/type", one->ifa_name)) >> type;
    if (type != ARPHRD_INFINIBAND) continue;
    std::array<char, NI_MAXHOST> host{};
    if (getnameinfo(one->ifa_addr, sizeof(sockaddr_in), host.data(), host.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0)
      continue;
    return NetworkInterface{one->ifa_name, host.data()};
  }
  return std::nullopt;
}

}  // namespace verbtwin::ibverbs
