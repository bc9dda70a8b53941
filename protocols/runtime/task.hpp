// Task<T>: a coroutine that starts when it is awaited and resumes its awaiter when it ends.
//
// A Task owns its frame (from the FramePool) and is awaited once, by one coroutine of the same thread.
// Exceptions do not cross it: protocol code reports what happened in its result, and an escaping exception
// ends the program.
//
// With GCC 12: name what is awaited (`auto fetch = execute(tx); co_await fetch`, or an awaitable that lives
// in a local) where its arguments are temporaries; no capturing lambda coroutines; no reference parameters to
// temporaries.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <type_traits>
#include <utility>

#include "protocols/runtime/frame_pool.hpp"

namespace verbtwin::protocols {

template <typename T>
class Task;

namespace detail {

struct PromiseBase {
  std::coroutine_handle<> awaiter = std::noop_coroutine();

  static void* operator new(std::size_t bytes) { return FramePool::take(bytes); }
  static void operator delete(void* frame, std::size_t bytes) { FramePool::give(frame, bytes); }

  struct Final {
    bool await_ready() const noexcept { return false; }
    template <typename Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      return self.promise().awaiter;
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  Final final_suspend() const noexcept { return {}; }
  [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
};

template <typename T>
struct Promise : PromiseBase {
  T value{};
  Task<T> get_return_object();
  void return_value(T result) { value = std::move(result); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() const noexcept {}
};

}  // namespace detail

template <typename T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle frame) : frame_(frame) {}
  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~Task() {
    if (frame_) frame_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) noexcept {
    frame_.promise().awaiter = awaiter;
    return frame_;
  }
  T await_resume() {
    if constexpr (!std::is_void_v<T>) return std::move(frame_.promise().value);
  }

  /// For whoever starts a coroutine that nobody awaits (the worker).
  std::coroutine_handle<> handle() const { return frame_; }
  bool done() const { return frame_.done(); }

 private:
  Handle frame_;
};

namespace detail {
template <typename T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace detail

}  // namespace verbtwin::protocols
