// DatagramRpc: Rpc over SEND/RECV, an adapter of UdRpc.
//
// Belongs to the Worker of its UdRpc, which outlives it.
#pragma once

#include "protocols/rpc/ud_rpc.hpp"

namespace verbtwin::protocols {

class DatagramRpc final : public Rpc {
 public:
  explicit DatagramRpc(UdRpc& datagrams) : datagrams_(datagrams) {}

  void set_handler(std::uint8_t id, Handler handler, void* context) override {
    handlers_[id] = {handler, context};
    datagrams_.set_handler(id, serve, &handlers_[id]);
  }
  std::span<std::byte> call(int node, std::uint8_t handler, std::size_t bytes, ReplyTarget& reply) override {
    return datagrams_.call(node, handler, bytes, reply);
  }
  std::span<std::byte> reply(const RpcOrigin& origin, std::size_t bytes) override {
    return datagrams_.reply(origin, bytes);
  }
  std::uint32_t payload_max_b() const override { return datagrams_.payload_max_b(); }

 private:
  static void serve(void* context, RpcRequest& request) {
    const auto& handler = *static_cast<const HandlerEntry<const RpcCall>*>(context);
    handler(RpcCall(request.origin(), request.arguments()));
  }

  UdRpc& datagrams_;
  HandlerTable<const RpcCall> handlers_;
};

}  // namespace verbtwin::protocols
