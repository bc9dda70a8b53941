// Sockets: a worker's TCP connections, one to the worker of its own index on each other node. They are byte
// streams: what is sent in one piece may arrive in many, and messages are the caller's affair.
//
// Given by WorkerPort::sockets(), owned by the binding and used by the worker's thread only. Nothing here
// waits: the worker's step asks poll() what can be done and does that much. Bytes arrive in order and none is
// lost; what a connection has in flight is bounded (socket buffers, TCP's window), so that a sender meets a
// peer that does not read. Every call is a system call on a real machine, and costs what one costs in
// simulation: ask for little, often.
//
// Source: epoll(7), send(2), recv(2), tcp(7) of the Linux man-pages. Errors: a connection that breaks cannot
// be mended and ends the run: send(), receive() and poll() throw std::runtime_error with one line that names
// the peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbtwin {

/// A connection that something can be done with: what poll() tells.
struct SocketReady {
  std::int32_t node = 0;
  bool readable = false;  // receive() has bytes
  bool writable = false;  // send() takes bytes; told only while want_room() says that anybody cares
};

class Sockets {
 public:
  virtual ~Sockets() = default;

  /// Fills in what is ready now, level-triggered, as epoll_wait(2) without a time-out; how many those are.
  virtual std::size_t poll(std::span<SocketReady> ready) = 0;

  /// Takes the first bytes of `bytes`, as many as there is room for; how many. 0: wait for room.
  virtual std::size_t send(int node, std::span<const std::byte> bytes) = 0;

  /// Moves what has arrived into `into`, as much as fits; how many bytes. 0: nothing is there.
  virtual std::size_t receive(int node, std::span<std::byte> into) = 0;

  /// Whether poll() is to tell when there is room to send to `node`.
  virtual void want_room(int node, bool wanted) = 0;
};

}  // namespace verbtwin
