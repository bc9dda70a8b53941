// TcpRpc: Rpc over TCP connections (backend/sockets.hpp): a message is an 8 B header and its bytes; messages
// to one peer that are ready together leave in one send call.
//
// Belongs to one Worker and its thread; created after it and destroyed before it. Each round asks the
// connections once what is ready, and takes at most kReceiveBytes of each that is.
//
// A peer is not trusted with lengths: a message is checked against kPayloadMaxBytes before anything is kept
// for it, and memory is taken as its bytes arrive. A peer that sends what this program never does ends the
// run (std::runtime_error). What waits to be sent is bounded by the calls that coroutines, here and at the
// peers, may have outstanding; a full connection is written on when it has room.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/sockets.hpp"
#include "protocols/rpc/call_slots.hpp"

namespace verbtwin::protocols {

class TcpRpc final : public Rpc {
 public:
  static constexpr std::uint32_t kPayloadMaxBytes = std::uint32_t{1} << 20;
  static constexpr std::size_t kReceiveBytes = std::size_t{64} << 10;

  explicit TcpRpc(Worker& worker);

  std::span<std::byte> call(int node, std::uint8_t handler, std::size_t bytes, ReplyTarget& reply) override;
  std::span<std::byte> reply(const RpcOrigin& origin, std::size_t bytes) override;

  /// Once a round: takes what the connections that are ready have. True: there were any.
  bool poll();
  /// Sends what has been written.
  void flush();

 private:
  enum class Kind : std::uint8_t { kCall = 1, kReply = 2 };
  struct Header {
    std::uint32_t bytes;
    std::uint16_t slot;  // the caller's, in a call and in its reply
    std::uint8_t handler;
    Kind kind;
  };
  static_assert(sizeof(Header) == 8);

  struct Peer {
    std::vector<std::byte> out;  // from `sent` on: not taken by the connection yet
    std::size_t sent = 0;
    bool listed = false;          // in to_flush_
    bool room_wanted = false;     // the connection was full
    std::vector<std::byte> part;  // the beginning of a message
  };

  std::span<std::byte> append(int node, const Header& header);
  void write(int node);
  void receive(int node);
  std::span<const std::byte> take_messages(int node, std::span<const std::byte> bytes);
  Header checked_header(int node, std::span<const std::byte> bytes) const;
  void serve(int node, const Header& header, std::span<const std::byte> body);
  [[noreturn]] static void refuse(int node, const char* what);
  Peer& peer(int node) { return peers_[static_cast<std::size_t>(node)]; }

  Cpu& cpu_;
  Sockets& sockets_;
  std::vector<Peer> peers_;  // by node
  std::vector<std::int32_t> to_flush_;
  CallSlots calls_;
  std::vector<SocketReady> ready_;
  std::vector<std::byte> received_;
};

}  // namespace verbtwin::protocols
