// PingPongThread: one worker's part of the `primitive` benchmark in mode "ping_pong": the machines 0 and 1, 2
// and 3, ... WRITE to each other in turn, each as soon as its CPU sees the last word of the other's. Half a
// round trip is the latency of a WRITE as ib_write_lat (linux-rdma/perftest) gives it: from the post to the
// sight of the bytes at the other end, no acknowledgement in it.
//
// Made by the Benchmark, used by its worker's thread only. Operations are round trips, counted by the machine
// that begins.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "protocols/micro/primitive.hpp"

namespace verbtwin::protocols {

/// What a thread writes from and what it is written to; both end with the word that is looked for.
struct PingPongLayout {
  PingPongLayout(const PrimitiveOptions& options, const ClusterShape& shape);

  std::size_t stride_b;
  std::size_t total_b;
  std::size_t source_end(int thread) const { return static_cast<std::size_t>(2 * thread + 1) * stride_b; }
  std::size_t landing_end(int thread) const { return source_end(thread) + stride_b; }
};

class PingPongThread final : public BenchmarkThread, private Steppable {
 public:
  PingPongThread(const PrimitiveOptions& options, const PingPongLayout& layout, WorkerPort& port);
  ~PingPongThread() override;
  /// Throws UserError where the device has no room for its queues.
  static void check_device(const PrimitiveOptions& options, const DeviceAttributes& device);

  void start(const Window& window, const std::atomic<bool>& stop) override;
  Steppable& steppable() override { return *this; }
  std::size_t unfinished() const override { return waiting_ && !failed_ ? 1 : 0; }

 private:
  static constexpr std::uint32_t kQueueDepth = 256;
  static constexpr std::uint32_t kSignalInterval = 16;
  static constexpr std::uint32_t kLooksPerPoll = 64;  // of the completion queue, for failures

  static QpInitAttributes queue_pair(const PrimitiveOptions& options);
  bool step() override;
  bool arrived(std::uint64_t number);
  void begin(std::int64_t now_ps);
  void end(std::int64_t now_ps);
  void send(std::uint64_t number);
  void poll();

  const PrimitiveOptions& options_;
  WorkerPort& port_;
  Cpu& cpu_;
  int peer_;     // -1: none
  bool begins_;  // the one of the two that counts
  std::byte* source_end_;
  std::byte* landing_end_;
  std::size_t landing_offset_;
  std::unique_ptr<CompletionQueue> cq_;
  QueuePair* queue_pair_ = nullptr;
  RemoteMemory remote_;
  const Window* window_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;

  std::uint64_t number_ = 0;  // of the last message sent
  std::uint32_t looks_ = 0;
  std::array<WorkCompletion, 4> polled_;
  std::int64_t start_ps_ = 0;
  bool waiting_ = false, failed_ = false;
};

}  // namespace verbtwin::protocols
