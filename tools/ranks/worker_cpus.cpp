#include "tools/ranks/worker_cpus.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <set>
#include <utility>

#include "backend/ibverbs/bytes.hpp"
#include "tools/console/text.hpp"

namespace verbtwin::tools {

namespace {

/// Of `left`, the best first, of which the last `siblings` share cores; there is one.
std::vector<int>::iterator best_for(const std::vector<int>& near, std::vector<int>& left,
                                    std::size_t siblings) {
  const auto cores_end = left.end() - static_cast<std::ptrdiff_t>(std::min(siblings, left.size()));
  const auto core = std::find_first_of(left.begin(), cores_end, near.begin(), near.end());
  if (core != cores_end) return core;
  if (cores_end != left.begin()) return left.begin();
  const auto cpu = std::ranges::find_first_of(left, near);
  return cpu != left.end() ? cpu : left.begin();
}

}  // namespace

std::string RankPlace::pack() const {
  ibverbs::ByteWriter to;
  to.put_text(machine);
  to.put_all(std::span(cpus));
  to.put(near.size());
  for (const std::vector<int>& list : near) to.put_all(std::span(list));
  to.put(siblings);
  return to.take();
}

RankPlace RankPlace::unpack(std::string_view packed) {
  ibverbs::ByteReader from(packed);
  RankPlace place;
  place.machine = from.get_text();
  place.cpus = from.get_all<int>();
  for (auto workers = from.get<std::size_t>(); workers > 0; --workers) {
    place.near.push_back(from.get_all<int>());
  }
  place.siblings = from.get<std::size_t>();
  return place;
}

RankPlace place_of(const std::vector<int>& ascending, const std::function<std::string(int)>& core_of) {
  std::set<std::string> taken;
  std::vector<int> first_of_core, others;
  for (auto cpu = ascending.rbegin(); cpu != ascending.rend(); ++cpu) {
    const std::string core = core_of(*cpu);
    (core.empty() || taken.insert(core).second ? first_of_core : others).push_back(*cpu);
  }
  RankPlace place;
  place.siblings = others.size();
  place.cpus.assign(others.rbegin(), others.rend());
  place.cpus.insert(place.cpus.end(), first_of_core.rbegin(), first_of_core.rend());
  return place;
}

RankPlace place_here(std::vector<std::vector<int>> near) {
  std::vector<int> ascending;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // Fails where there are more CPUs than the set has room for.
  sched_getaffinity(0, sizeof allowed, &allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) ascending.push_back(cpu);
  }
  RankPlace place = place_of(ascending, [](int cpu) {
    std::string siblings;
    std::getline(
        std::ifstream(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu)),
        siblings);
    return siblings;
  });
  place.near = std::move(near);
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), place.machine);
  return place;
}

std::vector<int> cpus_of_workers(std::span<const RankPlace> ranks, std::size_t rank) {
  const RankPlace& mine = ranks[rank];
  std::vector<int> left(mine.cpus.rbegin(), mine.cpus.rend()), chosen;
  for (std::size_t other = 0; other < ranks.size(); ++other) {
    const RankPlace& theirs = ranks[other];
    const bool apart = std::ranges::find_first_of(theirs.cpus, mine.cpus) == theirs.cpus.end();
    if (theirs.machine != mine.machine || (apart && other != rank)) continue;
    if (theirs.cpus != mine.cpus || theirs.near.size() > left.size()) return {};
    for (const std::vector<int>& near : theirs.near) {
      const auto cpu = best_for(near, left, mine.siblings);
      if (other == rank) chosen.push_back(*cpu);
      left.erase(cpu);
    }
  }
  return chosen;
}

std::string lack_of_cpus(std::span<const RankPlace> ranks, std::size_t rank) {
  const RankPlace& mine = ranks[rank];
  std::size_t workers = 0;
  for (const RankPlace& theirs : ranks) {
    if (theirs.machine == mine.machine && theirs.cpus == mine.cpus) workers += theirs.near.size();
  }
  if (mine.cpus.empty() || workers <= mine.cpus.size()) return "";
  return fmt::format(
      "{} workers share {}, where each polls for itself: use fewer threads, or give ranks more "
      "CPUs (srun --cpus-per-task, mpirun --bind-to none)",
      workers, format_counted(mine.cpus.size(), "CPU"));
}

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int first = 0, last = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc{}) break;
    last = first;
    if (read.ptr != end && *read.ptr == '-') {
      read = std::from_chars(read.ptr + 1, end, last);
      if (read.ec != std::errc{}) break;
    }
    for (int cpu = first; cpu <= last && cpu < CPU_SETSIZE; ++cpu) cpus.push_back(cpu);
    if (read.ptr == end || *read.ptr != ',') break;
    at = read.ptr + 1;
  }
  return cpus;
}

void pin_this_thread(int cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  pthread_setaffinity_np(pthread_self(), sizeof only, &only);
}

Beside::Beside(const std::vector<int>& cpus) {
  CPU_ZERO(&before_);
  if (pthread_getaffinity_np(pthread_self(), sizeof before_, &before_) != 0) return;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const int cpu : cpus) {
    if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &wanted);
  }
  if (CPU_COUNT(&wanted) > 0) pthread_setaffinity_np(pthread_self(), sizeof wanted, &wanted);
}

Beside::~Beside() {
  if (CPU_COUNT(&before_) > 0) pthread_setaffinity_np(pthread_self(), sizeof before_, &before_);
}

}  // namespace verbtwin::tools
