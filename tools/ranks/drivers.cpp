#include "tools/ranks/drivers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <stdexcept>
#include <system_error>

#include "tools/console/text.hpp"
#include "tools/ranks/worker_cpus.hpp"

namespace verbtwin::tools {

namespace {

/// Steps between two looks at the clock and the run's stage.
constexpr int kSteps = 4;
/// A worker without work for so long, a few round trips of RDMA NICs, offers its core between looks: with a
/// core of its own that costs nothing, and where threads share cores the others may have what this one waits
/// for. So may the kernel's thread that moves soft-RoCE's packets, which runs on the core of whoever posts.
constexpr std::int64_t kIdleBeforeYield_ps = 10'000'000;
/// A worker without work for so long (a server whose clients are slow) sleeps between looks, a quarter of the
/// time it has been idle for. Where workers share CPUs, soon: others may need the one it spins on. One with a
/// CPU of its own keeps nobody waiting, and a nap that falls into a run under load delays its peers: on
/// emulated CPUs round trips take 0.4 ms and more. Nor does it nap under an open loop, of which low loads are
/// measured: whoever calls it would wait for its nap.
constexpr std::int64_t kIdleBeforeNap_ps = 400'000'000;
constexpr std::int64_t kIdleBeforeNapOnOwnCpu_ps = 20'000'000'000;
constexpr std::int64_t kNever_ps = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kNapMax_ps = 5'000'000'000;
constexpr int kAnyCpu = -1;

void nap(std::int64_t idle_ps, std::int64_t wakes_in_ps) {
  const std::int64_t ps = std::min({idle_ps / 4, kNapMax_ps, wakes_in_ps});
  std::this_thread::sleep_for(std::chrono::nanoseconds(ps / 1000));
}

std::uint64_t sum(const VerbCounts& counts) {
  std::uint64_t all = counts.recv.count;
  for (const VerbCounts::Count& count : counts.by_opcode) all += count.count;
  return all;
}

std::string text_of(const ibverbs::Failure& failure) {
  return failure.what +
         (failure.peer < 0 ? " on a datagram queue pair" : fmt::format(" towards rank {}", failure.peer));
}

}  // namespace

Drivers::Drivers(ibverbs::Cluster& cluster, protocols::Program& program, const protocols::Window& window,
                 const std::atomic<bool>& stop, const std::vector<int>& cpus, bool open_loop)
    : cluster_(cluster), program_(program), window_(window), stop_(stop), open_loop_(open_loop) {
  for (int i = 0; i < program.threads(); ++i) threads_.push_back(std::make_unique<Thread>());
  try {
    for (int i = 0; i < program.threads(); ++i) {
      const auto index = static_cast<std::size_t>(i);
      const int cpu = cpus.empty() ? kAnyCpu : cpus[index];
      threads_[index]->thread = std::thread([this, i, cpu] { drive(i, cpu); });
    }
  } catch (const std::system_error& error) {  // a limit on processes: those that run must not outlive this
    join();
    throw std::runtime_error(fmt::format("cannot start {}: {}", format_counted(program.threads(), "thread"),
                                         error.code().message()));
  }
}

Drivers::~Drivers() {
  join();
}

void Drivers::join() {
  enter(Stage::kEnd);
  for (const auto& thread : threads_) {
    if (thread->thread.joinable()) thread->thread.join();
  }
}

void Drivers::drive(int index, int cpu) {
  if (cpu != kAnyCpu) pin_this_thread(cpu);
  std::int64_t idle_before_nap_ps = kIdleBeforeNap_ps;
  if (cpu != kAnyCpu) idle_before_nap_ps = open_loop_ ? kNever_ps : kIdleBeforeNapOnOwnCpu_ps;
  Thread& self = *threads_[static_cast<std::size_t>(index)];
  try {
    work(index, idle_before_nap_ps);
  } catch (const std::exception& error) {
    if (self.failed.load(std::memory_order_relaxed)) return;  // others may be reading why
    // What a worker throws is often what follows from a device's failure.
    const ibverbs::Failure& failure = cluster_.port(index).first_failure();
    self.failure = failure.what.empty() ? error.what() : text_of(failure);
    self.failed.store(true, std::memory_order_release);
  }
}

void Drivers::work(int index, std::int64_t idle_before_nap_ps) {
  Thread& self = *threads_[static_cast<std::size_t>(index)];
  Steppable& worker = program_.worker(index);
  ibverbs::NodePort& port = cluster_.port(index);
  Cpu& cpu = port.cpu();
  std::int64_t last_ps = cpu.now_ps();
  std::int64_t last_busy_ps = last_ps;
  count(self, index, last_ps);
  bool fences_posted = false;
  if (program_.is_passive(index)) {
    self.finished.store(true, std::memory_order_release);
    stage_.wait(Stage::kRun);
  }
  for (;;) {
    const Stage stage = stage_.load(std::memory_order_acquire);
    if (stage == Stage::kEnd) return;
    bool busy = false;
    for (int i = 0; i < kSteps; ++i) busy |= worker.step();
    const std::uint64_t activity = sum(port.counts()) + port.socket_bytes();
    busy |= activity != self.activity.load(std::memory_order_relaxed);
    self.activity.store(activity, std::memory_order_release);
    self.finished_ever.store(program_.finished_ever_of(index), std::memory_order_relaxed);

    const std::int64_t now_ps = cpu.now_ps();
    count(self, index, now_ps);
    if (busy && window_.contains(last_ps)) self.busy_ps += now_ps - last_ps;
    last_ps = now_ps;
    if (busy) last_busy_ps = now_ps;
    // What comes meanwhile is work from when it is found, not from when the core was given away.
    if (now_ps - last_busy_ps > idle_before_nap_ps) {
      nap(now_ps - last_busy_ps, worker.wakes_at_ps() - now_ps);
      last_ps = cpu.now_ps();
    } else if (now_ps - last_busy_ps > kIdleBeforeYield_ps) {
      std::this_thread::yield();
      last_ps = cpu.now_ps();
    }

    const bool over = now_ps >= window_.end_ps || stop_.load(std::memory_order_relaxed);
    if (over) {
      const std::size_t unfinished = program_.unfinished_of(index);
      self.unfinished.store(unfinished, std::memory_order_relaxed);
      if (unfinished == 0) self.finished.store(true, std::memory_order_release);
    }
    if (stage == Stage::kFence && !fences_posted) {
      port.post_fences();
      fences_posted = true;
    }
    if (fences_posted && port.fenced()) self.fenced.store(true, std::memory_order_release);
    const ibverbs::Failure& failure = port.first_failure();
    if (!failure.what.empty() && !self.failed.load(std::memory_order_relaxed)) {
      self.failure = text_of(failure);
      self.failed.store(true, std::memory_order_release);
    }
  }
}

void Drivers::count(Thread& self, int index, std::int64_t now_ps) {
  if (!self.counting && now_ps >= window_.begin_ps) {
    self.counting = true;
    self.before = cluster_.port(index).counts();
  }
  if (!self.counted && now_ps >= window_.end_ps) {
    self.counted = true;
    self.after = cluster_.port(index).counts();
  }
}

bool Drivers::finished() const {
  return std::ranges::all_of(threads_,
                             [](const auto& t) { return t->finished.load(std::memory_order_acquire); });
}
bool Drivers::fenced() const {
  return std::ranges::all_of(threads_,
                             [](const auto& t) { return t->fenced.load(std::memory_order_acquire); });
}
std::uint64_t Drivers::activity() const {
  std::uint64_t all = 0;
  for (const auto& thread : threads_) all += thread->activity.load(std::memory_order_acquire);
  return all;
}
std::uint64_t Drivers::finished_ever() const {
  std::uint64_t all = 0;
  for (const auto& thread : threads_) all += thread->finished_ever.load(std::memory_order_relaxed);
  return all;
}

std::size_t Drivers::unfinished() const {
  std::size_t all = 0;
  for (const auto& thread : threads_) all += thread->unfinished.load(std::memory_order_relaxed);
  return all;
}
std::size_t Drivers::not_fenced() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      threads_, [](const auto& t) { return !t->fenced.load(std::memory_order_acquire); }));
}

std::string Drivers::failure() const {
  for (const auto& thread : threads_) {
    if (thread->failed.load(std::memory_order_acquire)) return thread->failure;
  }
  return "";
}

VerbCounts Drivers::verbs_in_window() const {
  VerbCounts all;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const Thread& t = *threads_[i];
    // A run that was stopped early has no end of its window.
    const VerbCounts& after = t.counted    ? t.after
                              : t.counting ? cluster_.port(static_cast<int>(i)).counts()
                                           : t.before;
    all += after - t.before;
  }
  return all;
}

std::string Drivers::describe_unfinished() const {
  std::string text = program_.describe_unfinished();
  for (int node = 0; node < cluster_.port(0).shape().nodes; ++node) {
    std::size_t awaited = 0;
    for (int i = 0; i < program_.threads(); ++i) awaited += cluster_.port(i).awaited(node);
    if (awaited == 0) continue;
    text += fmt::format("{}{} towards rank {} not completed", text.empty() ? "" : "; ",
                        format_counted(awaited, "request"), node);
  }
  return text;
}

std::vector<std::int64_t> Drivers::core_busy_ps() const {
  std::vector<std::int64_t> busy;
  for (const auto& thread : threads_) busy.push_back(thread->busy_ps);
  return busy;
}

}  // namespace verbtwin::tools
