// Worker: one thread's scheduler. It owns its completion queues, the channels (RC queue pairs with what is
// staged on them) and the coroutines, and does one item of work a step. It works in rounds: take the
// completions that are there and resume who waited for each, resume the coroutines that were ready when the
// round began, send the messages that have been written meanwhile. A coroutine that makes itself ready again
// and again holds up neither. Where channels complete at queues of their own (ClusterShape::own_send_cqs), a
// round looks at those of which a completion is awaited.
//
// Owned by the program of its node; used by one thread. Coroutines and messages hold references to it and end
// first.
#pragma once

#include <array>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backend/cluster.hpp"
#include "backend/number_map.hpp"
#include "backend/prefetch.hpp"
#include "protocols/runtime/task.hpp"

namespace verbtwin::protocols {

class Worker;

/// What a coroutine works on, as far as fetching it into cache ahead of time goes.
class WorkedOn {
 public:
  /// A hint: its own first 512 B are in cache, and what it will need besides may be fetched.
  virtual void prefetch_rest() const = 0;

 protected:
  ~WorkedOn() = default;
};

/// Counts what a coroutine has outstanding (signalled requests, RPC replies); co_await it to wait for all of
/// them. Lives in the coroutine's frame; one waiter. After the wait, status() is the first failure or
/// success.
class WaitGroup {
 public:
  /// `owner` is what the waiter works on, or null: fetched into cache when the end of the wait is near.
  explicit WaitGroup(Worker& worker, const WorkedOn* owner = nullptr) : worker_(worker), owner_(owner) {}
  WaitGroup(const WaitGroup&) = delete;
  WaitGroup& operator=(const WaitGroup&) = delete;

  void add() { ++pending_; }
  inline void complete(WcStatus status);

  WcStatus status() const { return status_; }
  bool idle() const { return pending_ == 0; }

  void prefetch_owner() const {
    if (owner_ != nullptr) prefetch_lines(owner_, 512);
  }
  void prefetch_rest_of_owner() const {
    if (owner_ != nullptr) owner_->prefetch_rest();
  }

  bool await_ready() const noexcept { return pending_ == 0; }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { waiter_ = waiter; }
  void await_resume() const noexcept {}

 private:
  Worker& worker_;
  const WorkedOn* owner_;
  std::coroutine_handle<> waiter_;
  std::uint32_t pending_ = 0;
  WcStatus status_ = WcStatus::kSuccess;
};

/// Coroutines that wait for something other than a completion of their own.
class WaitList {
 public:
  struct Awaiter {
    WaitList& list;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { list.waiters_.push_back(waiter); }
    void await_resume() const noexcept {}
  };
  Awaiter wait() { return {*this}; }
  bool empty() const { return waiters_.empty(); }
  inline void wake_all(Worker& worker);

 private:
  std::vector<std::coroutine_handle<>> waiters_;
};

/// What takes the completions of datagrams (an RPC layer) and has messages staged.
class MessageLayer {
 public:
  virtual void on_recv(const WorkCompletion& wc) = 0;
  virtual void on_sent(const WorkCompletion& wc) = 0;
  /// Once a round, at its end. True: more can be done at once.
  virtual bool flush() = 0;
  /// A hint: on_recv() with this wr_id is near.
  virtual void prefetch_recv(std::uint64_t wr_id) const { static_cast<void>(wr_id); }

 protected:
  ~MessageLayer() = default;
};

/// What looks for messages that NICs have written into memory of this worker.
class PolledMemory {
 public:
  /// Once a round. True if it took any: there may be more.
  virtual bool poll_memory() = 0;

 protected:
  ~PolledMemory() = default;
};

/// An RC queue pair towards one NIC of one node.
struct Channel {
  static constexpr std::uint32_t kFailed = ~std::uint32_t{0};

  QueuePair* queue_pair = nullptr;
  std::unique_ptr<CompletionQueue> own_send_cq;  // or null
  RemoteMemory remote;                           // the node's registered memory through this queue pair
  std::int32_t node = 0;
  std::uint16_t since_signal = 0;  // unsignalled requests behind the last signalled one
  std::uint16_t staged = 0;        // requests that wait for ring()
  std::uint32_t signalled = 0;     // completions to come at its own_send_cq; kFailed: any number of them
};

/// Connected queue pairs that take no messages.
inline QpInitAttributes one_sided_queue_pairs() {
  QpInitAttributes attributes;
  attributes.max_recv_wr = 1;
  return attributes;
}

class Worker final : public Steppable {
 public:
  /// `queue_pairs`: type and depths of its channels' queue pairs.
  Worker(WorkerPort& port, std::uint32_t cqe, QpInitAttributes queue_pairs = one_sided_queue_pairs());
  ~Worker() override;

  /// Throws UserError where a device has no room for the queues of such a worker.
  static void check_device(const DeviceAttributes& device, std::uint32_t cqe,
                           const QpInitAttributes& queue_pairs = one_sided_queue_pairs()) {
    check_completion_queue(device, cqe);
    check_queue_pair(device, connected_queue_pairs(queue_pairs, device));
  }

  /// Completions of so many requests in a row on one channel that nobody waits for.
  static constexpr std::uint32_t completions_of_unawaited(std::uint32_t requests) {
    return requests / kSignalInterval;
  }
  /// Those that a worker must have room for, with channels to every NIC of the cluster.
  static constexpr std::uint32_t unawaited_completions(const ClusterShape& shape) {
    return static_cast<std::uint32_t>(shape.nodes * shape.nics_per_node * shape.qps_per_peer) *
           kSignalsPerChannel;
  }

  bool step() override;
  bool looks_next() const override {
    return polled_at_ == polled_end_ && round_ == 0 && catching_up_.empty();
  }
  std::int64_t wakes_at_ps() const override { return sleepers_.empty() ? kNever : sleepers_.begin()->first; }
  std::uint64_t next_wr_id() const override {
    return catching_up_.empty() && polled_at_ < polled_end_ ? polled_[polled_at_].wr_id : 0;
  }
  void prefetch(std::uint64_t wr_id, int steps) const override;

  /// Runs `root` from the next step on.
  void spawn(Task<void> root);
  std::size_t unfinished() const;
  /// What was spawned first is number 0.
  bool is_finished(std::size_t root) const { return roots_[root].done(); }

  WorkerPort& port() { return port_; }
  Cpu& cpu() { return cpu_; }
  CompletionQueue& cq() { return *cq_; }
  void set_messages(MessageLayer& layer) { messages_ = &layer; }
  void set_polled_memory(PolledMemory& memory) { polled_memory_ = &memory; }

  Channel& channel(int node, int nic, int index = 0);
  /// Hints: channel() is going to look for it, and then for what it has found.
  void prefetch_look_up(int node, int nic, int index) const {
    prefetch_line(channels_.near(port_.shape().queue_pair_number(node, nic, index)));
  }
  void prefetch_channel(int node, int nic, int index) const {
    const auto* found = channels_.find(port_.shape().queue_pair_number(node, nic, index));
    if (found != nullptr) prefetch_line(found->get());
  }
  int nic() const { return nic_; }

  /// Adds a request to a channel. With a group it is signalled and the group waits for it; without one it is
  /// retired by a later completion (passive acknowledgement). Nothing is posted before ring().
  void stage(Channel& channel, SendWr wr, WaitGroup* group);
  /// Posts what is staged: a doorbell per channel if `doorbell_batching`, else one per request.
  void ring(bool doorbell_batching);

  /// co_await worker.yield(): lets everything else that is ready go first.
  struct Yield {
    Worker& worker;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> coroutine) { worker.make_ready(coroutine); }
    void await_resume() const noexcept {}
  };
  Yield yield() { return {*this}; }

  /// co_await worker.yield_unless_waited(since), `since` being what resumed() was: a coroutine that finds all
  /// it needs on its own node waits for nothing, and would keep the worker from its peers' messages for as
  /// long as it runs.
  struct YieldUnlessWaited : Yield {
    std::uint64_t since;
    bool await_ready() const noexcept { return worker.resumed_ != since; }
  };
  YieldUnlessWaited yield_unless_waited(std::uint64_t since) { return {{*this}, since}; }
  /// How often it has resumed any coroutine.
  std::uint64_t resumed() const { return resumed_; }

  /// co_await worker.catch_up(since), `since` as above: what the coroutine reads and writes next is as of
  /// now, not of when its step began. A simulated core is ahead of memory by what it has charged, and a
  /// transaction that waits for nobody would meet nobody either. No later step of this worker goes
  /// first. On a real machine, and for who has waited (a new step began then), it does nothing.
  struct CatchUp {
    Worker& worker;
    std::uint64_t since;
    bool await_ready() const noexcept {
      return worker.resumed_ != since || !worker.cpu_.is_ahead_of_memory();
    }
    void await_suspend(std::coroutine_handle<> coroutine) { worker.catching_up_.push_back(coroutine); }
    void await_resume() const noexcept {}
  };
  CatchUp catch_up(std::uint64_t since) { return {*this, since}; }

  /// co_await worker.sleep_until(at_ps): goes on in the first round that begins no earlier; until then it
  /// takes nothing of the core.
  struct Sleep {
    Worker& worker;
    std::int64_t at_ps;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> coroutine) { worker.sleepers_.emplace(at_ps, coroutine); }
    void await_resume() const noexcept {}
  };
  Sleep sleep_until(std::int64_t at_ps) { return {*this, at_ps}; }

  void make_ready(std::coroutine_handle<> coroutine) { ready_.push_back(coroutine); }
  void resume(std::coroutine_handle<> coroutine) {
    ++resumed_;
    cpu_.charge(Cost::kCoroutineSwitch);
    coroutine.resume();
  }

  /// Completions that a round takes of a queue at most, and messages or records of a polled ring.
  static constexpr std::size_t kPollBatch = 16;

  // wr_id: kind in the low 3 bits, a pointer or a number above it.
  enum class WrKind : std::uint64_t { kOneSided = 0, kRecv = 1, kDatagram = 2 };

 private:
  static constexpr std::uint16_t kSignalInterval = 32;    // unsignalled requests in a row at most
  static constexpr std::uint32_t kSignalsPerChannel = 8;  // not polled yet; a send queue has room for fewer

  /// What a full send queue did not take. An inline request's bytes are kept with it: whoever staged it uses
  /// their buffer again as soon as ring() returns.
  struct Waiting {
    SendWr wr;
    bool doorbell_batching;
    std::vector<std::byte> inline_bytes;
  };
  struct Backlog {
    Channel* channel;
    std::deque<Waiting> requests;  // in order
  };

  Channel& channel_of(std::uint32_t number);
  void poll();
  /// Channels in turn, for as many completions as there is room left for.
  void poll_awaited();
  void handle(const WorkCompletion& wc);
  void retire(const WorkCompletion& wc);
  /// One doorbell. What the send queue does not take waits, and so does all that comes behind it.
  void post(Channel& channel, std::span<const SendWr> list, bool doorbell_batching);
  std::size_t try_post(Channel& channel, std::span<const SendWr> list);
  /// Once a poll's completions are handled: the places they freed are filled by one doorbell, not one each.
  void post_backlogs();

  WorkerPort& port_;
  Cpu& cpu_;
  int nic_;
  std::unique_ptr<CompletionQueue> cq_;
  std::size_t polled_at_ = 0, polled_end_ = 0;
  MessageLayer* messages_ = nullptr;
  PolledMemory* polled_memory_ = nullptr;
  NumberMap<std::unique_ptr<Channel>> channels_;  // by queue_pair_number(); made on first use
  struct Awaited {
    CompletionQueue* queue;
    Channel* channel;
  };
  std::vector<Awaited> awaited_;  // what completions are to come of there
  std::size_t next_awaited_ = 0;  // whose turn it is
  std::vector<SendWr> staged_;
  std::vector<Channel*> staged_for_;  // the channel of each
  std::vector<SendWr> gathered_;
  std::vector<Backlog> backlogs_;  // of the channels that have one
  std::deque<std::coroutine_handle<>> ready_;
  std::deque<std::coroutine_handle<>> catching_up_;                // the next steps are theirs
  std::multimap<std::int64_t, std::coroutine_handle<>> sleepers_;  // by when; those of one time in order
  std::vector<Task<void>> roots_;
  bool memory_has_more_ = false;
  std::uint64_t resumed_ = 0;
  std::size_t round_ = 0;                              // ready coroutines to run before the next poll
  std::array<WorkCompletion, 2 * kPollBatch> polled_;  // of the thread's queue, then of queue pairs'
};

inline void WaitGroup::complete(WcStatus status) {
  if (status != WcStatus::kSuccess && status_ == WcStatus::kSuccess) status_ = status;
  if (--pending_ == 0 && waiter_) {
    const std::coroutine_handle<> waiter = waiter_;
    waiter_ = {};
    worker_.resume(waiter);
  }
}

inline void WaitList::wake_all(Worker& worker) {
  for (const std::coroutine_handle<> waiter : waiters_) worker.make_ready(waiter);
  waiters_.clear();
}

}  // namespace verbtwin::protocols
