// How fast the Calendar is beside std::priority_queue, a plain binary heap, of the same 16-byte events, in
// one process.
//
// The hold model: with N events pending, each one that runs schedules one other, at a random later time. Both
// queues get the same times and end with the same order. Repetitions alternate between the two, so that a
// disturbance of the machine meets both; the ratio of the medians is printed last. Arguments are Google
// Benchmark's.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "sim/calendar.hpp"

namespace {

using verbtwin::sim::Calendar;
using verbtwin::sim::EventHandler;

constexpr std::int64_t kBatch = 100'000;

/// Delays of 0 to 2 us, as between the steps of a verb. xorshift64: the same numbers everywhere.
class Delays {
 public:
  std::int64_t next_ps() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::int64_t>(state_ >> 43);
  }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15;
};

struct Reschedule final : EventHandler {
  explicit Reschedule(Calendar& its_calendar) : calendar(its_calendar), id(its_calendar.add_handler(*this)) {}
  void handle(std::uint32_t index) override {
    calendar.schedule(calendar.now_ps() + delays.next_ps(), id, index);
  }
  Calendar& calendar;
  Calendar::HandlerId id;
  Delays delays;
};

void calendar_hold(benchmark::State& state) {
  Calendar calendar;
  Reschedule handler(calendar);
  for (std::uint32_t i = 0; i < state.range(0); ++i)
    calendar.schedule(handler.delays.next_ps(), handler.id, i);
  for (auto _ : state) {
    const std::uint64_t goal = calendar.executed() + kBatch;
    while (calendar.executed() < goal) calendar.run_until(calendar.now_ps() + 10'000);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(calendar.executed()));
}

void plain_heap_hold(benchmark::State& state) {
  struct Event {
    std::int64_t time_ps;
    std::uint32_t sequence;
    std::uint32_t what;
    bool operator<(const Event& other) const {
      return time_ps != other.time_ps ? time_ps > other.time_ps : sequence > other.sequence;
    }
  };
  static_assert(sizeof(Event) == 16);
  std::priority_queue<Event> queue;
  Delays delays;
  std::uint32_t sequence = 0;
  for (std::uint32_t i = 0; i < state.range(0); ++i) queue.push({delays.next_ps(), sequence++, i});
  for (auto _ : state) {
    for (std::int64_t i = 0; i < kBatch; ++i) {
      const Event event = queue.top();
      queue.pop();
      queue.push({event.time_ps + delays.next_ps(), sequence++, event.what});
    }
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

BENCHMARK(calendar_hold)->Arg(1'000)->Arg(6'000)->Arg(30'000)->Arg(100'000);
BENCHMARK(plain_heap_hold)->Arg(1'000)->Arg(6'000)->Arg(30'000)->Arg(100'000);

/// Prints as usual and remembers the medians.
class RatioReporter final : public benchmark::ConsoleReporter {
 public:
  RatioReporter() : ConsoleReporter(OO_None) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      const auto rate = run.counters.find("items_per_second");
      if (run.aggregate_name != "median" || rate == run.counters.end()) continue;
      rates_[std::stol(run.run_name.args)][run.run_name.function_name] = rate->second;
    }
  }

  void print_ratios() {
    std::printf("\n%10s %16s %16s %8s\n", "pending", "calendar ev/s", "plain heap ev/s", "ratio");
    for (auto& [pending, rate] : rates_) {
      const double calendar = rate["calendar_hold"];
      const double heap = rate["plain_heap_hold"];
      std::printf("%10ld %14.2f M %14.2f M %8.2f\n", pending, calendar / 1e6, heap / 1e6, calendar / heap);
    }
  }

 private:
  std::map<long, std::map<std::string, double>> rates_;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  std::string defaults[] = {"--benchmark_repetitions=7", "--benchmark_enable_random_interleaving=true",
                            "--benchmark_min_time=0.1", "--benchmark_report_aggregates_only=true"};
  for (std::string& argument : defaults) arguments.insert(arguments.begin() + 1, argument.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  RatioReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  reporter.print_ratios();
  return 0;
}
