// FramePool: memory of coroutine frames, recycled by size. A transaction runs a handful of coroutines; taking
// their frames from the heap each time would be a third of its cost.
//
// One pool per thread, made on first use; a frame returns to the pool of the thread that frees it.
#pragma once

#include <array>
#include <cstddef>
#include <new>

namespace verbtwin::protocols {

class FramePool {
 public:
  static void* take(std::size_t bytes) {
    const std::size_t bucket = (bytes + kStep - 1) / kStep;
    if (bucket >= kBuckets) return ::operator new(bytes);
    Block*& head = local().free_[bucket];
    if (head == nullptr) return ::operator new(bucket* kStep);
    Block* block = head;
    head = block->next;
    return block;
  }

  static void give(void* frame, std::size_t bytes) {
    const std::size_t bucket = (bytes + kStep - 1) / kStep;
    if (bucket >= kBuckets) {
      ::operator delete(frame);
      return;
    }
    Block*& head = local().free_[bucket];
    head = new (frame) Block{head};
  }

  ~FramePool() {
    for (Block* block : free_) {
      while (block != nullptr) {
        Block* next = block->next;
        ::operator delete(block);
        block = next;
      }
    }
  }

 private:
  struct Block {
    Block* next;
  };
  static constexpr std::size_t kStep = 64;
  static constexpr std::size_t kBuckets = 64;  // frames up to 4 KiB

  static FramePool& local() {
    thread_local FramePool pool;
    return pool;
  }

  std::array<Block*, kBuckets> free_{};
};

}  // namespace verbtwin::protocols
