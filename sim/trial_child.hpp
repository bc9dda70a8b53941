// What SimGrid may not survive, tried in a child of this process: it throws, aborts or exits, and says why on
// standard error.
//
// One thread, which waits for the child.
#pragma once

#include <cstddef>
#include <functional>
#include <new>
#include <string>

#include <sys/mman.h>
#include <sys/resource.h>

namespace verbtwin::sim {

/// Zeros that this process and its children share; not owned. Throws std::runtime_error.
void* map_shared(std::size_t bytes);

/// A T that a child made afterwards writes for this process.
template <typename T>
class SharedWithChild {
 public:
  SharedWithChild() : at_(new (map_shared(sizeof(T))) T{}) {}
  ~SharedWithChild() { munmap(at_, sizeof(T)); }
  SharedWithChild(const SharedWithChild&) = delete;
  SharedWithChild& operator=(const SharedWithChild&) = delete;
  T& operator*() const { return *at_; }
  T* operator->() const { return at_; }

 private:
  T* at_;
};

struct TrialEnd {
  std::string output;  // what the child and SimGrid wrote to standard output and error, read to its end
  bool took_too_long = false;  // by the child's own limit of CPU time
};

/// Runs `body` in a child. How far it came is for it to say, in memory shared with this process.
TrialEnd try_in_child(const std::function<void()>& body);

/// In the child: an endless loop ends in SIGXCPU. RLIM_INFINITY: no more.
void limit_cpu_time(rlim_t seconds);

/// What SimGrid gives for its reason, else the first line; printable, without SimGrid's own preamble.
std::string first_line(std::string text);

}  // namespace verbtwin::sim
