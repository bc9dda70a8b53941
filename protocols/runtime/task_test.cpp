#include "protocols/runtime/task.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace verbtwin::protocols {
namespace {

/// Starts a root as the worker does.
void start(const Task<void>& root) {
  root.handle().resume();
}

/// Suspends whoever awaits it, until somebody resumes it.
struct Gate {
  std::coroutine_handle<> waiter;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) noexcept { waiter = coroutine; }
  void await_resume() const noexcept {}
};

Task<int> constant(int value) {
  co_return value;
}

Task<int> sum_to(int n) {
  if (n == 0) co_return 0;
  auto rest = sum_to(n - 1);
  co_return n + co_await rest;
}

Task<std::unique_ptr<int>> boxed(int value) {
  co_return std::make_unique<int>(value);
}

Task<int> behind(Gate& gate, int value) {
  co_await gate;
  co_return value;
}

template <typename T>
Task<void> store(Task<T> inner, T& out) {
  out = co_await inner;
}

Task<void> nothing() {
  co_return;
}

Task<void> append_twice(std::vector<int>& out) {
  out.push_back(1);
  auto inner = nothing();
  co_await inner;
  out.push_back(2);
}

TEST(Task, StartsWhenAwaitedAndGivesItsValue) {
  int out = 0;
  const Task<void> root = store(constant(7), out);
  EXPECT_EQ(out, 0);
  EXPECT_FALSE(root.done());
  start(root);
  EXPECT_TRUE(root.done());
  EXPECT_EQ(out, 7);
}

TEST(Task, MovesValuesThatCannotBeCopied) {
  std::unique_ptr<int> out;
  const Task<void> root = store(boxed(11), out);
  start(root);
  ASSERT_NE(out, nullptr);
  EXPECT_EQ(*out, 11);
}

TEST(Task, Nests) {
  int out = 0;
  const Task<void> root = store(sum_to(1000), out);
  start(root);
  EXPECT_EQ(out, 1000 * 1001 / 2);
}

TEST(Task, VoidTasksReturnToTheirAwaiter) {
  std::vector<int> out;
  const Task<void> root = append_twice(out);
  start(root);
  EXPECT_EQ(out, (std::vector<int>{1, 2}));
}

TEST(Task, ResumesItsAwaiterWhenItEndsLater) {
  Gate gate;
  int out = 0;
  const Task<void> root = store(behind(gate, 5), out);
  start(root);
  EXPECT_FALSE(root.done());
  EXPECT_EQ(out, 0);
  gate.waiter.resume();
  EXPECT_TRUE(root.done());
  EXPECT_EQ(out, 5);
}

struct CountsItsEnd {
  explicit CountsItsEnd(int& ends) : ends_(&ends) {}
  CountsItsEnd(CountsItsEnd&& other) noexcept : ends_(std::exchange(other.ends_, nullptr)) {}
  ~CountsItsEnd() {
    if (ends_ != nullptr) ++*ends_;
  }
  int* ends_;
};

Task<void> holds(CountsItsEnd held, Gate& gate) {
  co_await gate;
  (void)held;
}

TEST(Task, DestroysTheFrameOfASuspendedCoroutine) {
  int ends = 0;
  Gate gate;
  {
    const Task<void> root = holds(CountsItsEnd(ends), gate);
    start(root);
    EXPECT_EQ(ends, 0);
  }
  EXPECT_EQ(ends, 1);
}

TEST(Task, AMovedTaskOwnsTheFrame) {
  int out = 0;
  Task<void> first = store(constant(3), out);
  Task<void> second = std::move(first);
  EXPECT_EQ(first.handle().address(), nullptr);
  start(second);
  EXPECT_EQ(out, 3);
  first = std::move(second);
  EXPECT_TRUE(first.done());
}

TEST(FramePool, GivesAFrameOfTheSameSizeAgain) {
  void* first = FramePool::take(200);
  FramePool::give(first, 200);
  void* second = FramePool::take(193);  // the same step of 64 B
  EXPECT_EQ(first, second);
  void* third = FramePool::take(200);
  EXPECT_NE(third, second) << "a frame in use was handed out";
  FramePool::give(second, 193);
  FramePool::give(third, 200);
}

TEST(FramePool, KeepsSizesApart) {
  void* small = FramePool::take(64);
  FramePool::give(small, 64);
  void* large = FramePool::take(65);
  EXPECT_NE(large, small);
  FramePool::give(large, 65);
}

TEST(FramePool, TakesFramesTooLargeToKeep) {
  void* huge = FramePool::take(1 << 20);
  ASSERT_NE(huge, nullptr);
  static_cast<char*>(huge)[(1 << 20) - 1] = 1;
  FramePool::give(huge, 1 << 20);
}

Task<void> frame_address(std::uintptr_t& out) {
  struct Address {
    std::uintptr_t& at;
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> self) noexcept {
      at = reinterpret_cast<std::uintptr_t>(self.address());
      return false;
    }
    void await_resume() const noexcept {}
  };
  Address here{out};
  co_await here;
}

TEST(FramePool, CoroutinesReuseFrames) {
  std::uintptr_t first = 0, second = 0;
  {
    const Task<void> root = frame_address(first);
    start(root);
  }
  {
    const Task<void> root = frame_address(second);
    start(root);
  }
  EXPECT_NE(first, 0U);
  EXPECT_EQ(first, second);
}

}  // namespace
}  // namespace verbtwin::protocols
