// TcpSockets: backend/sockets.hpp on Linux: non-blocking TCP connections with TCP_NODELAY, watched by an
// epoll(7) of the worker's own. NodeSockets: those of all workers of this process, and how they are set up.
//
// Owned by the Cluster. One thread makes and connects them; in between each TcpSockets belongs to its
// worker's thread. The kernel's socket buffers are the bound on what is in flight.
//
// Who may connect: the lower of two nodes connects to the higher, at the address that came by the rendezvous;
// both show that they know the run's token (proof.hpp) before anything else is read, in messages of fixed
// size. Who does not within kHelloTimeout is hung up on, as are the oldest silent ones where too many call,
// and the run goes on waiting for its own.
//
// Errors: set-up that does not succeed throws std::runtime_error; a connection that breaks later, likewise,
// by the worker that meets it, with the peer's rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cluster.hpp"

namespace verbtwin::ibverbs {

/// A file descriptor that is closed when its owner goes.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

class TcpSockets final : public Sockets {
 public:
  explicit TcpSockets(int nodes);

  std::size_t poll(std::span<SocketReady> ready) override;
  std::size_t send(int node, std::span<const std::byte> bytes) override;
  std::size_t receive(int node, std::span<std::byte> into) override;
  void want_room(int node, bool wanted) override;

  /// A connected socket to the worker of this index on `node`.
  void add(int node, Descriptor connection);
  bool has(int node) const { return static_cast<bool>(connections_[static_cast<std::size_t>(node)]); }
  std::uint64_t bytes_moved() const { return bytes_moved_; }

 private:
  int fd(int node) const { return connections_[static_cast<std::size_t>(node)].get(); }

  Descriptor epoll_;
  std::vector<Descriptor> connections_;  // by node
  std::uint64_t bytes_moved_ = 0;
};

/// Where a node's workers listen, as the others are told.
struct SocketAddress {
  std::string host;  // numeric
  std::uint16_t port = 0;
};

class NodeSockets {
 public:
  static constexpr std::chrono::seconds kHelloTimeout{5};

  /// Listens at `host` (numeric), at a port of the system's choice.
  NodeSockets(const ClusterShape& shape, int node, const std::string& host);
  ~NodeSockets();

  const SocketAddress& address() const { return address_; }
  /// All connections of all workers; `addresses` by node. Returns when they stand. `check` is called several
  /// times a second and throws where nobody need be waited for any more.
  void connect(const std::vector<SocketAddress>& addresses, const std::string& token,
               std::chrono::milliseconds timeout, const std::function<void()>& check);
  TcpSockets& of(int thread) { return *workers_[static_cast<std::size_t>(thread)]; }

 private:
  class Meeting;

  ClusterShape shape_;
  int node_;
  Descriptor listener_;
  SocketAddress address_;
  std::vector<std::unique_ptr<TcpSockets>> workers_;
};

struct NetworkInterface {
  std::string name;
  std::string address;  // numeric
};
/// The first IPoIB interface of this machine that is up, with its link, and has an IPv4 address.
std::optional<NetworkInterface> find_ipoib_interface();

}  // namespace verbtwin::ibverbs
