// AttemptObserver: who wants to hear of every attempt of every transaction, as a trace does.
//
// Not owned by the programs that tell it, and outlives them. It is told by the worker's thread, when the
// attempt is over: a program that nobody listens to asks once an attempt whether there is anybody. Times in
// picoseconds of the worker's clock. Texts last as long as the program.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace verbtwin::protocols {

/// What an attempt without the phase has for the time that it took. (With it, it may take none: all is at
/// hand.)
inline constexpr std::int64_t kNoPhase = -1;

struct EndedPhase {
  std::string_view name;
  std::int64_t ps = kNoPhase;  // that it took
};

struct EndedAttempt {
  int node = 0, thread = 0, coroutine = 0;
  std::string_view transaction;           // its type
  std::int64_t transaction_ps = 0;        // when it began, attempts before this one with it
  std::int64_t begin_ps = 0, end_ps = 0;  // of the attempt
  std::span<const EndedPhase> phases;     // one behind the other, the first from begin_ps on
  std::string_view failed_in;             // the phase behind these that it did not end, if there is one
  std::string_view outcome = kCommitted;  // or kUserAbort, or why it is tried again
  static constexpr std::string_view kCommitted = "committed", kUserAbort = "user_abort";
};

class AttemptObserver {
 public:
  virtual void ended(const EndedAttempt& attempt) = 0;

 protected:
  ~AttemptObserver() = default;
};

}  // namespace verbtwin::protocols
