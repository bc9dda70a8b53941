// FetchedPlaces: memory of a worker that clients of an echo READ, and where lands what it READs itself: a
// place for each coroutine of each peer, at the same offset in every node's memory, so that nobody has to be
// told.
//
// Belongs to one Worker and its thread. Sizes in bytes.
#pragma once

#include <cstddef>
#include <span>

#include "protocols/runtime/worker.hpp"
#include "protocols/whole_lines.hpp"

namespace verbtwin::protocols {

class FetchedPlaces {
 public:
  static std::size_t memory_bytes(std::size_t place_b, const ClusterShape& shape, int coroutines) {
    return static_cast<std::size_t>((shape.nodes + 1) * coroutines) * whole_lines(place_b);
  }

  /// `memory`: registered, memory_bytes() of it.
  FetchedPlaces(Worker& worker, std::span<std::byte> memory, std::size_t place_b, int coroutines)
      : worker_(worker), memory_(memory), stride_b_(whole_lines(place_b)), coroutines_(coroutines) {}

  /// For a coroutine of this worker's peer on `node`.
  std::byte* at_server(int node, int coroutine) { return &memory_[place(node, coroutine)]; }
  std::byte* landing(int coroutine) { return at_server(worker_.port().shape().nodes, coroutine); }

  /// READs `length` bytes of the coroutine's place at the other end of `channel`, behind the first `skipped`
  /// ones, to where they lie in landing(). Rings at once, for what else is staged too.
  Task<WcStatus> fetch(Channel& channel, int coroutine, std::size_t skipped, std::size_t length) {
    WorkerPort& port = worker_.port();
    const auto offset = static_cast<std::size_t>(memory_.data() - port.memory().local().data());
    SendWr wr;
    wr.opcode = Opcode::kRdmaRead;
    wr.sge = {landing(coroutine) + skipped, static_cast<std::uint32_t>(length), port.memory().lkey()};
    wr.remote_addr = channel.remote.addr + offset + place(port.node(), coroutine) + skipped;
    wr.rkey = channel.remote.rkey;
    WaitGroup fetched(worker_);
    worker_.stage(channel, wr, &fetched);
    worker_.ring(true);
    co_await fetched;
    co_return fetched.status();
  }

 private:
  std::size_t place(int node, int coroutine) const {
    return static_cast<std::size_t>(node * coroutines_ + coroutine) * stride_b_;
  }

  Worker& worker_;
  std::span<std::byte> memory_;
  std::size_t stride_b_;
  int coroutines_;
};

}  // namespace verbtwin::protocols
