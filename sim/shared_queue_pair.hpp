// SharedQueuePair: a connected queue pair that several threads of a machine post to, and each thread's share
// in it.
//
// The NIC sees one queue pair: one context, one order, one window of READs. Threads post under its lock, for
// as long as building their requests and ringing the doorbell takes. Each keeps a share of the send queue, as
// deep as it asked for, and has its completions in its own completion queue: what handing those on from one
// queue that all of them poll would cost is left out.
//
// A share belongs to its thread's worker, what is shared to the first of them; they begin and end together.
// Everything runs in the simulation's one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "models/spin_lock.hpp"
#include "sim/device.hpp"

namespace verbtwin::sim {

class QueuePairShare;

class SharedQueuePair {
 public:
  /// `threads`: shares at most. Queue pair and prices outlive it.
  SharedQueuePair(SimQueuePair& queue_pair, int threads, const models::SpinLock::Prices& prices);

  SimQueuePair& queue_pair() { return queue_pair_; }

  // What the queue pair asks and tells.
  /// How many requests the share that posts may add.
  std::uint32_t room() const;
  /// The request at `position` of the send queue is done; it told of with a completion.
  void complete(std::uint32_t position, const WorkCompletion& wc, std::int64_t visible_ps);
  /// The send queue has begun anew at `position`.
  void reset();

 private:
  friend class QueuePairShare;

  struct Posted {
    QueuePairShare* by;
    std::uint32_t position;  // in its share
  };

  Posted& at(std::uint32_t position) { return posted_[position & (posted_.size() - 1)]; }

  SimQueuePair& queue_pair_;
  const models::SpinLock::Prices& prices_;
  models::SpinLock lock_;
  std::vector<Posted> posted_;  // by position in the send queue, round and round; a power of two
  std::vector<QueuePairShare*> shares_;
  QueuePairShare* posting_ = nullptr;
};

class QueuePairShare final : public QueuePair {
 public:
  /// `thread` of its machine, for how far the lock is from it.
  QueuePairShare(SharedQueuePair& shared, Core& core, std::uint32_t thread, CompletionQueue* send_cq);

  PostResult post_send(std::span<const SendWr> list) override;
  /// Threads cannot share RECVs: kInvalid.
  PostResult post_recv(std::span<const RecvWr> list) override;
  QpAddress address() const override { return shared_.queue_pair().address(); }
  QpType type() const override { return shared_.queue_pair().type(); }
  QpState state() const override { return shared_.queue_pair().state(); }
  void connect(const QpAddress& peer) override { shared_.queue_pair().connect(peer); }
  void reset() override { shared_.queue_pair().reset(); }

 private:
  friend class SharedQueuePair;

  SharedQueuePair& shared_;
  Core& core_;
  std::uint32_t thread_;
  SimCompletionQueue* send_cq_;
  std::uint32_t sender_;      // its number at send_cq_
  std::uint32_t posted_ = 0;  // in its share of the send queue
};

}  // namespace verbtwin::sim
