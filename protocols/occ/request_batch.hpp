// RequestBatch: the requests of one phase, sent together (outstanding requests) or one after another.
//
//   RequestBatch batch(worker, options.logging, owner);    the phase's options
//   for (...) {
//     stage a request that batch.group() waits for
//     auto sent = batch.next();
//     co_await sent;       goes on at once, or waits for this request
//   }
//   auto rest = batch.rest();
//   co_await rest;         rings the doorbells, waits for all
//
// Lives in the frame of the coroutine that uses it.
#pragma once

#include <coroutine>

#include "protocols/runtime/worker.hpp"

namespace verbtwin::protocols {

class RequestBatch {
 public:
  /// The options of any phase have these two; `owner` as WaitGroup's.
  template <typename PhaseOptions>
  RequestBatch(Worker& worker, const PhaseOptions& options, const WorkedOn* owner)
      : worker_(worker),
        group_(worker, owner),
        outstanding_(options.outstanding),
        doorbell_batching_(options.doorbell_batching) {}

  WaitGroup& group() { return group_; }
  WcStatus status() const { return group_.status(); }

  struct Sent {
    RequestBatch& batch;
    bool wait;
    bool await_ready() const {
      if (!wait) return true;
      batch.worker_.ring(batch.doorbell_batching_);
      return batch.group_.await_ready();
    }
    void await_suspend(std::coroutine_handle<> waiter) const noexcept { batch.group_.await_suspend(waiter); }
    void await_resume() const noexcept {}
  };
  Sent next() { return {*this, !outstanding_}; }
  Sent rest() { return {*this, true}; }

 private:
  Worker& worker_;
  WaitGroup group_;
  bool outstanding_, doorbell_batching_;
};

}  // namespace verbtwin::protocols
