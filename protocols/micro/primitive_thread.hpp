// PrimitiveThread: one worker's loop of the `primitive` benchmark. A lean loop and not coroutines: what a
// published sweep of raw verbs posts and polls, and nothing beside it, is what its core time is.
//
// Made by the Benchmark, used by its worker's thread only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <pcg_random.hpp>
#include <vector>

#include "protocols/micro/primitive.hpp"

namespace verbtwin::protocols {

/// Where a primitive's parts lie in the registered memory of a node: each thread's buffers, then the target.
struct PrimitiveLayout {
  PrimitiveLayout(const PrimitiveOptions& options, const ClusterShape& shape);

  std::size_t thread_offset(int thread) const { return static_cast<std::size_t>(thread) * thread_b; }
  std::size_t total_b() const { return target_offset + target_b; }

  std::size_t stride_b;  // of payloads, in buffers and in the target: whole cache lines
  std::size_t recv_stride_b;
  std::size_t thread_b;
  std::size_t target_offset;
  std::size_t target_b;
};

class PrimitiveThread final : public BenchmarkThread, private Steppable {
 public:
  static constexpr std::uint32_t kRecvBuffers = 64;  // shared in turn: nobody looks at what is received

  PrimitiveThread(const PrimitiveOptions& options, const PrimitiveLayout& layout, std::uint64_t seed,
                  WorkerPort& port);
  ~PrimitiveThread() override;
  /// Throws UserError where the device has no room for its queues.
  static void check_device(const PrimitiveOptions& options, const ClusterShape& shape,
                           const DeviceAttributes& device);

  void start(const Window& window, const std::atomic<bool>& stop) override;
  Steppable& steppable() override { return *this; }
  std::size_t unfinished() const override { return slots_.size() - free_slots_.size(); }
  bool is_passive() const override {
    return !options_.issues(port_.node(), port_.thread()) && options_.verb != Opcode::kSend;
  }

 private:
  static constexpr std::uint32_t kRecvBatch = 8;
  static constexpr std::size_t kPollBatch = 16;

  /// How many queue pairs it has, their depths, and the completions of all.
  struct Queues {
    Queues(const PrimitiveOptions& options, const ClusterShape& shape);
    QpInitAttributes attributes(const DeviceAttributes& device) const;

    QpType type;
    std::uint32_t sends, recvs;  // of one
    std::uint32_t inline_b;
    std::uint32_t pairs;
    std::uint32_t completions;
  };
  /// A queue pair with what is outstanding on it.
  struct Line {
    QueuePair* queue_pair = nullptr;
    RemoteMemory remote;
    int node = 0;
    std::uint32_t index = 0;
    std::uint32_t uncovered = 0;  // requests with no signalled one behind them
    std::uint32_t consumed_recvs = 0;
  };
  struct Destination {
    std::unique_ptr<AddressHandle> ah;
    QpAddress address;
  };
  /// A signalled request in flight.
  struct Slot {
    std::int64_t posted_ps = 0;
    std::uint32_t retires = 0;  // itself and the unsignalled ones in front of it
  };

  bool step() override;

  bool is_datagram() const { return options_.transport == QpType::kUd; }
  void connect();
  bool may_post();
  bool has_room();
  bool has_time() const;
  void post();
  int pick_node();
  Line& line(int node, int index);
  void request(const Line& line, SendWr& wr);
  void address(SendWr& wr);
  void signal(Line& line, SendWr& wr);
  void take(const WorkCompletion& wc);
  void retire(const WorkCompletion& wc);
  void post_recvs(Line& line, std::uint32_t count);
  void post_first_recvs();

  const PrimitiveOptions& options_;
  const PrimitiveLayout& layout_;
  WorkerPort& port_;
  Cpu& cpu_;
  bool issues_;
  std::unique_ptr<CompletionQueue> cq_;
  std::unique_ptr<QueuePair> datagrams_;
  std::byte* buffers_;
  std::byte* recv_buffers_;
  std::uint32_t lkey_;
  pcg32 random_;
  const Window* window_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;

  std::vector<Line> lines_;  // by (node, index); the datagram queue pair is the only one of its kind
  std::vector<Destination> destinations_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<SendWr> list_;
  std::array<WorkCompletion, kPollBatch> polled_;  // here and not on the stack: not made anew for each poll
  std::uint32_t place_ = 0;                        // of the next request: its buffer
  std::uint32_t in_flight_ = 0;
  std::uint32_t uncovered_ = 0, uncovered_max_;  // over all queue pairs
  bool filling_ = true;
  bool ready_ = false;  // to post: may_post() said so when the last step ended
  /// When a signalled request was posted or completions were taken last. Other posts do without: to read the
  /// clock takes a core as long as a few hundred instructions.
  std::int64_t now_ps_ = 0;
};

}  // namespace verbtwin::protocols
