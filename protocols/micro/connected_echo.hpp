// ConnectedEcho: echo messages over connected queue pairs, one to each peer.
//
// Messages to a peer go into a ring at the peer that nobody else writes (SEND: into its RECVs). A ring has at
// least two places for each of a worker's calls: no more than one request and one reply of a call can be
// unread, so a message never lands on an unread one. A polled message ends where its place ends, whatever its
// length, with a word that holds its number, written last because NICs write in order of addresses; its
// receiver looks at the head of each ring in turn, as FaRM (NSDI 2014) and HERD do. The others carry what
// they are as immediate data.
//
// Belongs to one Worker and its thread; created after it and destroyed before it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "protocols/micro/echo.hpp"

namespace verbtwin::protocols {

/// Where the parts lie in a worker's memory, the same for all of the cluster.
struct ConnectedEchoLayout {
  ConnectedEchoLayout(const EchoOptions& options, const ClusterShape& shape, int coroutines);

  bool polled;                       // messages are found by polling memory
  std::uint32_t request_b, reply_b;  // on the wire
  std::size_t stride_b;              // of messages in a ring
  std::uint32_t ring;                // messages of one
  std::size_t source_offset;         // what is sent: a ring for each peer
  std::size_t landing_offset;
  std::size_t recv_offset, recv_b;  // of one RECV
  std::size_t total_b;
};

class ConnectedEcho : public EchoTransport, public MessageLayer, public PolledMemory {
 public:
  static constexpr std::uint32_t kRecvBuffers = 64;  // shared in turn: nobody looks at what is received
  static constexpr std::uint32_t kRecvBatch = 4;

  ConnectedEcho(const EchoOptions& options, int coroutines, Worker& worker, std::span<std::byte> memory);
  ~ConnectedEcho() override;
  /// HERD: throws UserError where a reply does not fit a datagram, or all replies a queue of the device.
  static void check_datagrams(const EchoOptions& options, const ClusterShape& shape, int coroutines,
                              const DeviceAttributes& device);

  void connect() override;
  Task<WcStatus> call(int node, int coroutine) override;

  void on_recv(const WorkCompletion& wc) override;
  void on_sent(const WorkCompletion&) override {}
  bool flush() override;
  bool poll_memory() override;

 protected:
  // What a message is: in its last word or its immediate data.
  static constexpr std::uint32_t kReplyBit = 1U << 31;
  static constexpr std::uint32_t kNoReplyBit = 1U << 30;  // of a request: whoever calls comes for the result
  static constexpr std::uint32_t kCoroutines = 1U << 10;  // the call's coroutine is below it
  static constexpr std::uint32_t kServerTime_us = kCoroutines;  // of a reply: what one microsecond adds
  static constexpr std::uint32_t kServerTimeMax_us = 0xffff;

  struct Peer {
    Channel* channel = nullptr;
    std::unique_ptr<AddressHandle> ah;  // HERD: for replies
    QpAddress address;
    std::uint32_t sent = 0, received = 0;
    std::uint32_t consumed_recvs = 0;
  };
  bool take_message(int node);
  Peer& peer(int node) { return peers_[static_cast<std::size_t>(node)]; }

  /// Returns the request's number among the messages to `node`. With a group it is signalled.
  std::uint32_t request(int node, std::uint32_t what, WaitGroup* sent);
  /// How long the server took for this coroutine's last reply.
  std::uint16_t server_time_us(int coroutine) const {
    return server_time_us_[static_cast<std::size_t>(coroutine)];
  }
  /// Request `number` of `node` has been served.
  virtual void answer(int node, std::uint32_t number, std::uint32_t what, std::uint16_t took_us);

  const EchoOptions& options_;
  Worker& worker_;
  Cpu& cpu_;
  std::span<std::byte> memory_;
  std::size_t memory_offset_;  // in every node's registered memory
  std::uint32_t lkey_;

 private:
  bool replies_by_datagram() const { return options_.transport == EchoOptions::Transport::kHerd; }
  bool takes_recvs() const { return !layout_.polled || replies_by_datagram(); }
  void make_datagram_queue_pair();
  Task<WcStatus> reply_to(int coroutine);
  SendWr message(std::uint32_t what, std::uint32_t bytes);
  std::uint32_t send(int node, SendWr wr, WaitGroup* sent);
  void send_datagram(int node, SendWr wr);
  /// It is the reply that a coroutine waits for.
  bool is_awaited(std::uint32_t what) const;
  void deliver(int node, std::uint32_t number, std::uint32_t what);
  void post_recvs(int node, std::uint32_t count);
  /// Where a message of so many bytes begins in a set of rings.
  std::size_t place(int node, std::uint32_t number, std::uint32_t bytes) const {
    const std::size_t slot = static_cast<std::size_t>(node) * layout_.ring + number % layout_.ring;
    return (slot + 1) * layout_.stride_b - bytes;
  }

  ConnectedEchoLayout layout_;
  std::uint32_t inline_max_b_;
  std::uint32_t recvs_;  // of one queue pair
  std::vector<Peer> peers_;
  std::vector<int> partners_;                  // nodes that call this worker or are called by it
  std::vector<WaitGroup*> waiting_;            // by coroutine; null: it waits for no reply
  std::vector<std::uint16_t> server_time_us_;  // by coroutine, of its last reply
  std::unique_ptr<QueuePair> datagrams_;
  std::vector<SendWr> datagram_list_;
  std::uint32_t datagrams_sent_ = 0;
};

}  // namespace verbtwin::protocols
