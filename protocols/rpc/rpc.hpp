// Rpc: remote procedure calls between the workers of one index on different nodes, whatever carries them:
// datagrams (UdRpc), RDMA WRITEs into polled buffers (BufferRpc), sockets (TcpRpc), or nothing at all where
// the callee is the caller's own node (LocalRpc).
//
// Belongs to one Worker and its thread; created after it and destroyed before it. Handlers run to completion
// in the worker's step and must not call co_await. Every call is answered exactly once, by its handler or
// later by whoever kept its origin; but passive ones (UdRpc), of which none is. Sizes in bytes. Nothing here
// fails: a transport that breaks shows as a failed completion, or as the binding's error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "protocols/runtime/worker.hpp"

namespace verbtwin::protocols {

/// Where a reply goes. Outlives the call.
class ReplyTarget {
 public:
  virtual void on_reply(std::span<const std::byte> reply) = 0;

 protected:
  ~ReplyTarget() = default;
};

/// A reply for a coroutine: copied into `buffer`, counted in `group`.
class Reply final : public ReplyTarget {
 public:
  Reply() = default;
  Reply(WaitGroup& group, std::span<std::byte> buffer) : group_(&group), buffer_(buffer) { group.add(); }
  void on_reply(std::span<const std::byte> reply) override;
  std::span<const std::byte> bytes() const { return buffer_.first(size_); }

 private:
  WaitGroup* group_ = nullptr;
  std::span<std::byte> buffer_;
  std::size_t size_ = 0;
};

/// Replies that say nothing but that the call was served: one target for any number of calls.
class Acknowledgements final : public ReplyTarget {
 public:
  explicit Acknowledgements(WaitGroup& group) : group_(group) {}
  ReplyTarget& one_more() {
    group_.add();
    return *this;
  }
  void on_reply(std::span<const std::byte>) override { group_.complete(WcStatus::kSuccess); }

 private:
  WaitGroup& group_;
};

/// Who asked. A value that outlives its call, so that the reply may be given later than the handler returns.
struct RpcOrigin {
  std::int32_t node = 0;
  std::uint16_t slot = 0;
};

/// One call as its handler sees it.
class RpcCall {
 public:
  RpcCall(RpcOrigin origin, std::span<const std::byte> arguments, bool passive = false)
      : origin_(origin), passive_(passive), arguments_(arguments) {}
  /// Valid during the handler only.
  std::span<const std::byte> arguments() const { return arguments_; }
  RpcOrigin origin() const { return origin_; }
  /// Nobody waits for an answer.
  bool passive() const { return passive_; }

 private:
  RpcOrigin origin_;
  bool passive_;
  std::span<const std::byte> arguments_;
};

class Rpc {
 public:
  /// What serves calls, given its context with each.
  using Handler = void (*)(void* context, const RpcCall& call);

  virtual ~Rpc() = default;
  void set_handler(std::uint8_t id, Handler handler, void* context) { handlers_[id] = {handler, context}; }
  /// Room for the arguments of a call, to be filled in before anything else is asked of this object; the
  /// message leaves with the next flush of the worker's round. At most as many bytes as its carrier takes.
  virtual std::span<std::byte> call(int node, std::uint8_t handler, std::size_t bytes,
                                    ReplyTarget& reply) = 0;
  /// Room for the answer to a call, likewise; exactly once per call.
  virtual std::span<std::byte> reply(const RpcOrigin& origin, std::size_t bytes) = 0;

 protected:
  struct HandlerEntry {
    void operator()(const RpcCall& call) const { function(context, call); }

    Handler function = nullptr;
    void* context = nullptr;
  };
  bool has_handler(std::uint8_t id) const {
    return id < handlers_.size() && handlers_[id].function != nullptr;
  }
  std::array<HandlerEntry, 16> handlers_;  // by the handler's number
};

}  // namespace verbtwin::protocols
