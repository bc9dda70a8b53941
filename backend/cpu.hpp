// Cpu: a worker's own core, as far as protocol code may know it: a clock and a way to say what work costs.
//
// A Cpu belongs to one worker thread and is used by that thread only. In simulation charge() advances the
// core's clock by a price from the host profile; on a real machine the work itself takes the time and
// charge() adds nothing (its prices are zero). Work that nobody does but that should take time is
// charge_ps(): it does on both.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace verbtwin {

/// Work that a host profile prices (models/profile.cpp has the table with unit and range of each).
/// Verbs calls charge the first group themselves; code in protocols/ charges the second.
enum class Cost : std::uint8_t {
  // by the binding
  kPostWr,       // build one send WQE
  kDoorbell,     // ring: 8 B write-through to the device, with its barriers
  kBlueFlame,    // each 64 B block that is copied to the device with it
  kInlineBlock,  // copy one 64 B block of inline payload into the WQE
  kPostRecv,     // build one RECV WQE
  kPoll,         // look at a completion queue, whatever is there
  kPollCqe,      // take one completion
  // by protocol code
  kCoroutineSwitch,
  kRpcSend,      // build one message: header, slot
  kPollSlot,     // look whether a message has been written to a place in memory
  kRpcReceive,   // take one message apart, find its handler or its waiter
  kIndexLookup,  // hash look-up in local memory
  kCacheLookup,  // location cache look-up
  kMemoryMiss,   // wait for memory that no cache holds; lines read together are waited for once
  kLocalAtomic,  // CPU compare-and-swap on a contended word
  kCopyBlock,    // copy 64 B between buffers
  kTransactionBegin,
  kTransactionEnd,
  kCount,
};
inline constexpr std::size_t kCostCount = static_cast<std::size_t>(Cost::kCount);

/// What a core's work takes, in picoseconds; all zero on a real machine.
struct CpuPrices {
  std::array<std::int64_t, kCostCount> cost_ps{};
  std::int64_t cycle_ps = 0;
  std::uint64_t last_level_cache_b = 0;  // what is in it is not waited for
};

class Cpu {
 public:
  /// The worker's clock. Simulated: the instant the work charged so far ends.
  virtual std::int64_t now_ps() const = 0;
  /// The same for memory: what this core reads and writes now, it does as of this time. Simulated: the
  /// instant at which the current item of work began, whatever has been charged since.
  std::int64_t memory_now_ps() const { return now_ps() - charged_ps_; }

  /// Work that takes so long: a simulated core's clock advances by it, a real core spins.
  virtual void charge_ps(std::int64_t ps) = 0;
  void charge(Cost cost) { charged_ps_ += prices_.cost_ps[static_cast<std::size_t>(cost)]; }
  void charge(Cost cost, std::uint64_t times) {
    charged_ps_ += prices_.cost_ps[static_cast<std::size_t>(cost)] * static_cast<std::int64_t>(times);
  }
  /// Stores to `lines` lines of memory that no cache holds. The core goes on, but stores become visible in
  /// order (Intel SDM volume 3, section 8.2.2): each line is waited for, a kMemoryMiss, behind the one
  /// before, and a doorbell behind the last.
  void store_cold(std::uint64_t lines) {
    const std::int64_t line_ps = prices_.cost_ps[static_cast<std::size_t>(Cost::kMemoryMiss)];
    if (line_ps == 0) return;
    stored_ps_ = std::max(stored_ps_, now_ps()) + line_ps * static_cast<std::int64_t>(lines);
  }
  /// A store behind the work charged so far and all stores before: others see it at now_ps(), or when those
  /// to cold lines are over. (A core that shares its time with interrupts is later than that, its stores are
  /// not.)
  virtual void publish_word(std::byte* at, std::uint64_t value) {
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(at))
        .store(value, std::memory_order_release);
  }
  /// The work charged so far is yet to be done, as far as memory goes: never so on a real machine.
  bool is_ahead_of_memory() const { return charged_ps_ > 0; }
  /// Of what is often used, so much needs no kMemoryMiss.
  std::uint64_t last_level_cache_b() const { return prices_.last_level_cache_b; }
  /// Application work given in core cycles, as the papers give it.
  void charge_cycles(std::uint64_t cycles) {
    charged_ps_ += prices_.cycle_ps * static_cast<std::int64_t>(cycles);
  }

 protected:
  /// `prices` is not owned, outlives the core and is shared by all of its kind.
  explicit Cpu(const CpuPrices& prices) : prices_(prices) {}
  ~Cpu() = default;  // never owned through this interface

  std::int64_t charged_ps_ = 0;  // since the core's current item of work began
  std::int64_t stored_ps_ = 0;   // the last store to a cold line is over

 private:
  const CpuPrices& prices_;
};

/// What a binding drives: one item of work a call.
class Steppable {
 public:
  virtual ~Steppable() = default;
  /// Does ONE item of work (a completion, a ready coroutine, a flush) if there is any. Returns true if more
  /// can be done at once, without waiting for a completion.
  virtual bool step() = 0;
  /// True if the next step looks for everything that can have arrived; false in the middle of a round. A
  /// binding that lets workers sleep must not let one sleep over what arrived behind its last look.
  virtual bool looks_next() const { return true; }
  /// When there is something to do whether or not a completion comes; kNever: there is no such time.
  virtual std::int64_t wakes_at_ps() const { return kNever; }
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  /// The wr_id of the completion that the next step will take, 0 if that is not known yet. For prefetch().
  virtual std::uint64_t next_wr_id() const { return 0; }
  /// A hint, with steps 2, 1 and then 0: a step that takes a completion with this wr_id is near, and what it
  /// leads to may be prefetched. May be left out, and must change nothing.
  virtual void prefetch(std::uint64_t wr_id, int steps) const {
    static_cast<void>(wr_id);
    static_cast<void>(steps);
  }
};

}  // namespace verbtwin
