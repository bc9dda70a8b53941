#include "sim/shared_queue_pair.hpp"

#include <algorithm>
#include <bit>

namespace verbtwin::sim {

SharedQueuePair::SharedQueuePair(SimQueuePair& queue_pair, int threads,
                                 const models::SpinLock::Prices& prices)
    : queue_pair_(queue_pair),
      prices_(prices),
      posted_(std::bit_ceil(static_cast<std::size_t>(threads) * queue_pair.max_send_wr_)) {
  queue_pair_.shared_ = this;
}

std::uint32_t SharedQueuePair::room() const {
  const std::uint32_t taken = posting_->posted_ - posting_->send_cq_->retired(posting_->sender_);
  return queue_pair_.max_send_wr_ - taken;
}

void SharedQueuePair::complete(std::uint32_t position, const WorkCompletion& wc, std::int64_t visible_ps) {
  const Posted& posted = at(position);
  posted.by->send_cq_->push(wc, visible_ps, posted.by->sender_, posted.position + 1);
}

void SharedQueuePair::reset() {
  for (QueuePairShare* share : shares_) share->send_cq_->retired(share->sender_) = share->posted_;
}

QueuePairShare::QueuePairShare(SharedQueuePair& shared, Core& core, std::uint32_t thread,
                               CompletionQueue* send_cq)
    : shared_(shared),
      core_(core),
      thread_(thread),
      send_cq_(static_cast<SimCompletionQueue*>(send_cq)),
      sender_(send_cq_->add_sender()) {
  shared_.shares_.push_back(this);
}

PostResult QueuePairShare::post_send(std::span<const SendWr> list) {
  SimQueuePair& queue_pair = shared_.queue_pair_;
  const models::SpinLock::Hold hold = shared_.lock_.take(shared_.prices_, thread_, core_.now_ps());
  core_.charge_ps(hold.lock_ps);
  core_.wait_ps(hold.wait_ps);
  const std::int64_t taken_ps = core_.now_ps();

  shared_.posting_ = this;
  queue_pair.core_ = &core_;
  const std::size_t most = std::min<std::size_t>(list.size(), shared_.room());
  for (std::uint32_t i = 0; i < most; ++i) shared_.at(queue_pair.posted_ + i) = {this, posted_ + i};
  const PostResult result = queue_pair.post_send(list);
  posted_ += static_cast<std::uint32_t>(result.posted);
  shared_.lock_.give_back(core_.now_ps() - taken_ps);
  return result;
}

PostResult QueuePairShare::post_recv(std::span<const RecvWr>) {
  return {0, PostError::kInvalid};
}

}  // namespace verbtwin::sim
