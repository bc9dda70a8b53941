// RpcLayers: what carries a worker's calls, side by side: to its own node, datagrams, polled buffers,
// sockets; and the locks that other workers of its node granted.
//
// Belongs to one Worker, which it hands its messages to; what it points to outlives it.
#pragma once

#include "protocols/ramp/server.hpp"
#include "protocols/rpc/buffer_rpc.hpp"
#include "protocols/rpc/local_rpc.hpp"
#include "protocols/rpc/tcp_rpc.hpp"
#include "protocols/rpc/ud_rpc.hpp"

namespace verbtwin::protocols {

class RpcLayers final : public MessageLayer, public PolledMemory {
 public:
  LocalRpc* local = nullptr;
  UdRpc* datagrams = nullptr;
  BufferRpc* buffers = nullptr;
  TcpRpc* sockets = nullptr;
  RampServer* grants = nullptr;  // S2PL that waits

  void attach(Worker& worker) {
    worker.set_messages(*this);
    if (buffers != nullptr || sockets != nullptr || grants != nullptr) worker.set_polled_memory(*this);
  }

  void on_recv(const WorkCompletion& wc) override { datagrams->on_recv(wc); }
  void on_sent(const WorkCompletion& wc) override { datagrams->on_sent(wc); }
  void prefetch_recv(std::uint64_t wr_id) const override { datagrams->prefetch_recv(wr_id); }

  bool flush() override {
    bool more = local->deliver();
    more = (datagrams != nullptr && datagrams->flush()) || more;
    if (buffers != nullptr) buffers->flush();
    if (sockets != nullptr) sockets->flush();
    return more;
  }

  bool poll_memory() override {
    bool any = buffers != nullptr && buffers->poll();
    any = (sockets != nullptr && sockets->poll()) || any;
    return (grants != nullptr && grants->take_grants()) || any;
  }
};

}  // namespace verbtwin::protocols
