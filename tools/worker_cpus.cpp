#include "tools/worker_cpus.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include "backend/ibverbs/bytes.hpp"

namespace verbtwin::tools {

std::string RankPlace::pack() const {
  ibverbs::ByteWriter to;
  to.put_all(std::span(machine));
  to.put_all(std::span(cpus));
  to.put(workers);
  return to.take();
}

RankPlace RankPlace::unpack(std::string_view packed) {
  ibverbs::ByteReader from(packed);
  RankPlace place;
  const std::vector<char> machine = from.get_all<char>();
  place.machine.assign(machine.begin(), machine.end());
  place.cpus = from.get_all<int>();
  place.workers = from.get<int>();
  return place;
}

RankPlace place_here(int workers) {
  RankPlace place;
  place.workers = workers;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), place.machine);
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return place;  // more CPUs than the set has room for
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) place.cpus.push_back(cpu);
  }
  return place;
}

std::vector<int> cpus_of_workers(std::span<const RankPlace> ranks, std::size_t rank,
                                 std::span<const std::vector<int>> near) {
  const RankPlace& mine = ranks[rank];
  std::size_t before = 0, all = 0;
  for (std::size_t other = 0; other < ranks.size(); ++other) {
    if (ranks[other].machine != mine.machine) continue;
    const std::vector<int>& theirs = ranks[other].cpus;
    std::vector<int> shared;
    std::ranges::set_intersection(mine.cpus, theirs, std::back_inserter(shared));
    if (shared.empty() && other != rank) continue;
    if (theirs != mine.cpus) return {};
    const auto workers = static_cast<std::size_t>(std::max(ranks[other].workers, 0));
    all += workers;
    if (other < rank) before += workers;
  }
  if (all > mine.cpus.size()) return {};

  const auto first = mine.cpus.rbegin() + static_cast<std::ptrdiff_t>(before);
  std::vector<int> left(first, first + mine.workers);
  std::vector<int> chosen;
  for (std::size_t worker = 0; !left.empty(); ++worker) {
    auto cpu = left.begin();
    if (worker < near.size()) {
      const auto beside = std::ranges::find_first_of(left, near[worker]);
      if (beside != left.end()) cpu = beside;
    }
    chosen.push_back(*cpu);
    left.erase(cpu);
  }
  return chosen;
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

}  // namespace verbtwin::tools
