// Which CPU each worker thread of a real node keeps to.
//
// A thread that the scheduler moves takes its caches and its place beside the NIC with it, and while it polls
// there is always an idle CPU for the scheduler to move it to: the published systems pin their threads, as
// here, one to a CPU. Each gets a core to itself while there are any, beside its NIC or not: to share a core
// costs more than the way to the other socket. The last ones come first: interrupts and the kernel's timers
// are on the first ones unless somebody moves them. Ranks on one machine share its CPUs out
// among them; where there are not enough, or where they were given sets that overlap, nobody is pinned. Plain
// values and functions, any thread.
#pragma once

#include <sched.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace verbtwin::tools {

/// Where a rank runs, as it tells the others.
struct RankPlace {
  std::string machine;    // the same for two ranks on one machine, whatever their containers call it
  std::vector<int> cpus;  // that it may run on, the best last
  /// By worker: the CPUs beside its NIC; empty where that is not known.
  std::vector<std::vector<int>> near;
  std::size_t siblings = 0;  // so many of the first `cpus` are of the core of a later one

  std::string pack() const;
  static RankPlace unpack(std::string_view packed);  // throws std::runtime_error where it is too short
};

/// A place with these CPUs, the last ones last, but before all of them a second one of any core: two workers
/// on one core share it. `core_of`: the same text for two CPUs of a core (thread_siblings_list in the same
/// document).
RankPlace place_of(const std::vector<int>& ascending, const std::function<std::string(int)>& core_of);

/// This process's: CPUs from sched_getaffinity(2), the machine from the kernel's boot_id.
RankPlace place_here(std::vector<std::vector<int>> near);

/// The CPU of each worker of `rank`; empty: they are not pinned. The same sharing-out on every rank of a
/// machine, rank by rank: a worker gets a core beside its NIC, else any core that nobody has, else a CPU
/// beside its NIC, else any.
std::vector<int> cpus_of_workers(std::span<const RankPlace> ranks, std::size_t rank);

/// What to say where the ranks that have this rank's CPUs have more workers than these; empty: there are
/// enough.
std::string lack_of_cpus(std::span<const RankPlace> ranks, std::size_t rank);

/// "0-3,8" as the kernel writes it (Documentation/admin-guide/cputopology.rst); what cannot be read ends the
/// list.
std::vector<int> parse_cpu_list(std::string_view text);

/// Has no effect where the system refuses: pinning is a help, not a promise.
void pin_this_thread(int cpu);

/// While it lives, the thread that made it is on those of `cpus` that it may use, if there are any: pages
/// that it touches first are in the memory beside them (set_mempolicy(2): the default policy).
class Beside {
 public:
  explicit Beside(const std::vector<int>& cpus);
  ~Beside();
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

 private:
  cpu_set_t before_{};
};

}  // namespace verbtwin::tools
