#include "tools/run/simulate.hpp"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "backend/user_error.hpp"
#include "calibration/profile_file.hpp"
#include "protocols/checks/history.hpp"
#include "protocols/checks/report.hpp"
#include "scenarios/document.hpp"
#include "scenarios/network_size.hpp"
#include "scenarios/text.hpp"
#include "sim/cluster.hpp"
#include "sim/simgrid_options.hpp"
#include "tools/console/stop_signals.hpp"
#include "tools/console/text.hpp"
#include "tools/run/job.hpp"
#include "tools/run/provenance.hpp"
#include "tools/run/result.hpp"
#include "tools/run/trace.hpp"

namespace verbtwin::tools {

namespace {

using WallClock = std::chrono::steady_clock;

double seconds_since(WallClock::time_point start) {
  return std::chrono::duration<double>(WallClock::now() - start).count();
}

std::int64_t us_to_ps(double us) {
  return std::llround(us * 1e6);
}

/// The kernel's TCP as the scenario names it, over a link of the kind that its transport says.
std::optional<models::SocketProfile> socket_profile(const scenarios::Scenario& scenario,
                                                    const RunControl& control) {
  if (scenario.cluster.sockets.empty()) return std::nullopt;
  const models::SocketProfile profile = control.sockets != nullptr
                                            ? *control.sockets
                                            : calibration::load_socket_profile(scenario.cluster.sockets);
  check_socket_link(profile, scenario.protocol.at("transport"));
  return profile;
}

sim::Topology topology_of(const scenarios::Network& n) {
  if (n.topology == "fat_tree") return sim::FatTree{n.leaf_ports, n.spines};
  if (n.topology == "torus") return sim::Torus{n.dimensions};
  if (n.topology == "dragonfly")
    return sim::Dragonfly{n.groups, n.chassis, n.routers, n.router_ports, n.group_cables};
  return {};
}

sim::ClusterParameters cluster_parameters(const scenarios::Scenario& scenario, const RunControl& control) {
  const scenarios::Cluster& c = scenario.cluster;
  sim::ClusterParameters p;
  p.shape = shape_of(c);
  p.nic = control.nic != nullptr ? *control.nic : calibration::load_nic_profile(c.nic);
  p.host = control.host != nullptr ? *control.host : calibration::load_host_profile(c.host);
  p.sockets = socket_profile(scenario, control);
  p.platform_xml = c.network.platform;
  p.link_gbps = c.network.link_gbps;
  p.cable_ps = std::llround(c.network.cable_ns * 1000);
  p.tear = {std::llround(c.tear_ns * 1000), seed_of(scenario.run)};
  p.loss_ratio = c.network.loss_ratio;
  p.background_gbps = c.network.background_gbps;
  p.seed = seed_of(scenario.run);
  p.switch_ps = std::llround(c.network.switch_ns * 1000);
  p.topology = topology_of(c.network);
  p.message_per_communication = c.network.model == scenarios::NetworkModel::kSimgrid;
  p.shared_contexts = c.shared_contexts;
  p.threads_per_queue_pair = c.threads_per_queue_pair;
  p.busy_threads = scenario.workload.value("issuing_threads", 0);
  return p;
}

std::string threads_beyond(int cores, const scenarios::Cluster& cluster) {
  if (cluster.threads <= cores) return "";
  return fmt::format(
      "{} threads, where a machine of {} has {} cores: simulated with more sockets than it has",
      cluster.threads, scenarios::one_line(cluster.host), cores);
}

/// A simulated cluster with a program on every node.
class Simulation {
 public:
  Simulation(const scenarios::Scenario& scenario, const RunControl& control)
      : scenario_(scenario), control_(control), job_(make_job(scenario, control)), cluster_([&] {
          sim::ClusterParameters p = cluster_parameters(scenario, control);
          p.node_memory_b = job_->node_memory_bytes();
          host_cores_ = sim::cores_of_host(p.host);
          return p;
        }()) {}

  ~Simulation() { job_.reset(); }  // before the cluster, whose devices its programs use

  /// Makes the programs. What is there of them goes before the cluster, also where this throws.
  void set_up() {
    window_.begin_ps = us_to_ps(scenario_.run.warmup_us);
    window_.end_ps = window_.begin_ps + us_to_ps(scenario_.run.measure_us);
    const scenarios::Cluster& shape = scenario_.cluster;
    if (control_.trace != nullptr) control_.trace->measures_from(window_.begin_ps);
    for (int node = 0; node < shape.nodes; ++node) {
      end_if_told_to_stop();
      std::vector<WorkerPort*> ports;
      for (int thread = 0; thread < shape.threads; ++thread) {
        WorkerPort& port = cluster_.port(node, thread);
        ports.push_back(control_.trace == nullptr ? &port : &control_.trace->wrap(port));
      }
      nodes_.push_back(&job_->add_node(node, cluster_.memory(node), ports));
    }
    for (int node = 0; node < shape.nodes; ++node) {
      end_if_told_to_stop();
      nodes_[static_cast<std::size_t>(node)]->start(window_, stopping_);
      for (int thread = 0; thread < shape.threads; ++thread) {
        cluster_.drive(node, thread, nodes_[static_cast<std::size_t>(node)]->worker(thread));
      }
    }
  }

  void run() {
    // What is done at 0 belongs to a window that begins there.
    const bool going_on = window_.begin_ps == 0 || advance(window_.begin_ps);
    cluster_.begin_window();
    before_ = cluster_.usage();
    const std::uint64_t begun = finished_ever();
    const bool half_way = going_on && advance(window_.begin_ps + (window_.end_ps - window_.begin_ps) / 2);
    finished_early_ = finished_ever() - begun;
    if (half_way) {
      middle_ = cluster_.usage();
      advance(window_.end_ps);
    }
    finished_late_ = finished_ever() - begun - finished_early_;
    // Torn accesses leave memory behind what NICs have acknowledged.
    if (scenario_.cluster.tear_ns == 0) job_->look();
    partial_ = stopping_.load();
    measured_until_ps_ = std::max(cluster_.calendar().now_ps(), window_.begin_ps);
    window_.end_ps = std::min(window_.end_ps, measured_until_ps_);
    after_ = cluster_.usage();
    if (control_.trace != nullptr) control_.trace->measured_until(window_.end_ps);
    cluster_.stop_background();
    unchecked_ = !drain();
  }

  /// Checks the run; `begun`: when it began.
  nlohmann::json result(double setup_s, WallClock::time_point begun);

 private:
  /// False if it was told to stop before `until_ps`.
  bool advance(std::int64_t until_ps) {
    std::uint32_t windows = 0;
    cluster_.clock().run_until(until_ps, [&] {
      if (is_told_to_stop()) stopping_.store(true);
      if (control_.progress && ++windows % 8 == 0) report_progress();
      return !stopping_.load();
    });
    return !stopping_.load();
  }

  bool is_told_to_stop() const {
    return control_.stop != nullptr && control_.stop->load(std::memory_order_relaxed);
  }

  void end_if_told_to_stop() const {
    if (is_told_to_stop())
      throw Interrupted("stopped while the cluster was being set up: there is nothing of the run to keep");
  }

  std::uint64_t finished_ever() const {
    std::uint64_t sum = 0;
    for (const protocols::Program* node : nodes_) sum += node->finished_ever();
    return sum;
  }

  void report_progress() {
    control_.progress(static_cast<double>(cluster_.calendar().now_ps()) / 1e6, scenario_.run.length_us(),
                      finished_ever());
  }

  /// Lets what is in flight finish: the checks need a quiet cluster. Not for ever: transactions may keep
  /// aborting each other. All is measured: who is told to stop has another second for it. False: that was not
  /// enough.
  bool drain() {
    // Since the last one that finished:
    constexpr std::int64_t kDrainPs = 1'000'000'000'000;  // a simulated second, or
    constexpr std::int64_t kRoundTrips = 100;             // more than a transaction's attempts take
    constexpr std::uint64_t kEventsInVain = 5'000'000;
    constexpr double kPatience_s = 1;
    sim::Calendar& calendar = cluster_.calendar();
    // Torn accesses take an event for each line: however long values are, it is attempts that are counted.
    const auto executed = [&] { return calendar.executed() - cluster_.transport().torn_lines(); };
    std::uint64_t finished = finished_ever(), finished_at = executed();
    std::int64_t finished_ps = calendar.now_ps();
    bool in_vain = false, is_cut_short = false;
    std::optional<WallClock::time_point> told;
    const auto going_on = [&] {
      if (const std::uint64_t now = finished_ever(); now != finished) {
        finished = now;
        finished_at = executed();
        finished_ps = calendar.now_ps();
      }
      in_vain = executed() - finished_at > kEventsInVain;
      if (!told && is_told_to_stop()) told = WallClock::now();
      is_cut_short = told && seconds_since(*told) > kPatience_s;
      return !in_vain && !is_cut_short;
    };
    const std::int64_t wait_ps = std::max(kDrainPs, kRoundTrips * cluster_.round_trip_ps());
    const auto until_ps = [&] { return std::min(finished_ps + wait_ps, sim::Clock::kUntilMaxPs); };
    // A message that SimGrid carries is in flight without an event.
    while ((!calendar.empty() || cluster_.transport().in_flight() > 0) && calendar.now_ps() < until_ps() &&
           !in_vain && !is_cut_short) {
      const std::int64_t next_ps = calendar.empty() ? calendar.now_ps() : calendar.next_ps();
      cluster_.clock().run_until(std::min(next_ps + us_to_ps(1), until_ps()), going_on);
    }
    if (is_cut_short) return false;
    // A protocol's requests do not fail here unless it, or the simulator, is wrong.
    const std::uint64_t failed = cluster_.transport().failed();
    if (failed > 0 && !scenario_.protocol.is_null()) {
      throw std::runtime_error(fmt::format("{} completed with an error", format_counted(failed, "request")));
    }
    std::size_t unfinished = 0;
    for (const protocols::Program* node : nodes_) unfinished += node->unfinished();
    if (unfinished == 0) return true;
    const std::string why = why_unfinished(finished_ps, !in_vain && calendar.now_ps() >= until_ps());
    unfinished_.violations = unfinished;
    unfinished_.transactions = finished_ever() + unfinished;
    unfinished_.examples = {fmt::format("{} never finished{}{}; nothing else is checked",
                                        format_counted(unfinished, what_is_run(scenario_)), why,
                                        what_is_awaited())};
    return true;
  }

  /// `finished_ps`: when the last one did.
  std::string why_unfinished(std::int64_t finished_ps, bool out_of_time) {
    const sim::Calendar& calendar = cluster_.calendar();
    const std::int64_t waited_ps = calendar.now_ps() - finished_ps;
    const bool loses = scenario_.cluster.network.loss_ratio > 0;
    if (!calendar.empty() || cluster_.transport().in_flight() > 0) {
      if (!out_of_time && cluster_.round_trip_ps() <= waited_ps)
        return ": still being tried again, and none came to its end";
      const double waited_ms = static_cast<double>(waited_ps) / 1e9;
      return fmt::format(
          " in the {} simulated ms that were waited for the next: the network's latencies may be too long, "
          "or its links too slow{}",
          waited_ms < 100 ? fmt::format("{:.3g}", waited_ms) : fmt::format("{:.0f}", waited_ms),
          loses ? ", or what was lost is sent by nobody again" : "");
    }
    if (loses) {
      return fmt::format(": {} lost (cluster.network.loss_ratio), and nobody sends a datagram again",
                         format_counted(cluster_.transport().counts().packets_lost, "packet"));
    }
    return fmt::format(": a message was lost or a queue pair failed ({} datagrams dropped)",
                       after_.verbs.datagrams_dropped);
  }

  /// On the first node that has something to tell; empty: none has.
  std::string what_is_awaited() const {
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      const std::string text = nodes_[node]->describe_unfinished();
      if (!text.empty()) return fmt::format("; node {}: {}", node, text);
    }
    return "";
  }

  const scenarios::Scenario& scenario_;
  const RunControl& control_;
  std::unique_ptr<Job> job_;
  int host_cores_ = 0;
  sim::Cluster cluster_;
  protocols::Window window_;
  std::atomic<bool> stopping_{false};
  bool partial_ = false, unchecked_ = false;
  protocols::CheckReport unfinished_{"finished", 0, 0, {}, {}};
  std::int64_t measured_until_ps_ = 0;
  std::uint64_t finished_early_ = 0, finished_late_ = 0;  // in the halves of the window
  sim::Usage before_, after_;
  std::optional<sim::Usage> middle_;
  std::vector<protocols::Program*> nodes_;
};

nlohmann::json Simulation::result(double setup_s, WallClock::time_point begun) {
  RunInput run;
  run.scenario = &scenario_;
  run.partial = partial_ || unchecked_;
  run.unchecked = unchecked_ || unfinished_.violations > 0;
  run.window_ps = window_.end_ps - window_.begin_ps;
  run.before = &before_;
  run.after = &after_;
  if (middle_) run.middle = &*middle_;
  run.finished_early = finished_early_;
  run.finished_late = finished_late_;
  nlohmann::json result = job_->result(run);
  if (unfinished_.violations > 0) {
    nlohmann::json check = check_json(unfinished_);
    if (scenario_.protocol.is_null()) check.erase("transactions");  // they are operations
    result["checks"].push_back(std::move(check));
  }
  if (unchecked_) {
    result["warning"].push_back(
        "a signal ended the run before its last transactions had ended: nothing is checked");
  }
  if (const std::string more = threads_beyond(host_cores_, scenario_.cluster); !more.empty())
    result["warning"].push_back(more);
  const double wall_s = seconds_since(begun);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const std::uint64_t events = cluster_.calendar().executed();
  result["simulator"] = {{"events", events},
                         {"setup_s", setup_s},
                         {"wall_s", wall_s},
                         {"events_per_s", static_cast<double>(events) / wall_s},
                         {"transactions_per_wall_s", static_cast<double>(finished_ever()) / wall_s},
                         {"peak_rss_mib", static_cast<double>(usage.ru_maxrss) / 1024.0}};
  if (control_.nic == nullptr && control_.host == nullptr && control_.sockets == nullptr) {
    result["simulator"]["program"] = program_name();
    result["simulator"]["files"] = file_digests(scenario_.cluster);
  }
  if (!sim::simgrid_cfg().empty()) result["simulator"]["simgrid_cfg"] = sim::simgrid_cfg();
  return result;
}

}  // namespace

void configure_simgrid(const std::vector<std::string>& cfg, const std::vector<std::string>& log) {
  sim::tell_simgrid(cfg, log);
}

void check_socket_link(const models::SocketProfile& profile, const std::string& transport) {
  const bool own_link = profile.link_gbps > 0;
  if (own_link == (transport == "ethernet_tcp")) return;
  throw UserError("/cluster/sockets",
                  own_link ? "has a link of its own, and ipoib_tcp uses the RDMA NIC's; allowed: a socket "
                             "profile with link_gbps 0"
                           : "uses the RDMA NIC's link, and ethernet_tcp has its own; allowed: a socket "
                             "profile with link_gbps above 0");
}

void check_cluster(const scenarios::Scenario& scenario) {
  const sim::Cluster cluster(cluster_parameters(scenario, {}));
}

std::string more_threads_than_cores(const scenarios::Cluster& cluster) {
  return threads_beyond(sim::cores_of_host(calibration::load_host_profile(cluster.host)), cluster);
}

void check_simulated_time(const scenarios::Run& run) {
  constexpr double kMost_us = 90e6;  // of the clock's 100 s; transactions under way end in the rest
  if (run.warmup_us + run.measure_us <= kMost_us) return;
  throw UserError("/run/measure_us",
                  fmt::format("out of range: {:g} with {:g} of warm-up; allowed in a simulation: {:g} in all",
                              run.measure_us, run.warmup_us, kMost_us));
}

double machine_memory_gib() {
  struct sysinfo machine {};
  if (sysinfo(&machine) != 0) return std::numeric_limits<double>::infinity();
  return (static_cast<double>(machine.totalram) + static_cast<double>(machine.totalswap)) * machine.mem_unit /
         (1 << 30);
}

double least_memory_gib(const scenarios::Cluster& cluster) {
  constexpr double kWorkerMin_gib = 50.0 / (1 << 20);
  return kWorkerMin_gib * cluster.nodes * cluster.threads;
}

double about_memory_gib(const scenarios::Scenario& scenario) {
  // In MiB, fitted to peaks of SmallBank on 4 to 256 machines of 4 and 24 threads in 10 us to 8 ms.
  constexpr double kProcess = 50, kMachine = 0.75, kWorker = 0.13, kPairMet = 1.7 / 1024, kEnded = 1.5 / 1024,
                   kLink = 1.2 / 1024;
  constexpr double kHugePagesMost = 1024;  // of all log rings (Cluster::NodeMemory)
  constexpr double kLatency_us = 20, kWorkerMost_per_us = 0.4, kPeersOfOne = 4;  // a transaction's, about
  const scenarios::Cluster& cluster = scenario.cluster;
  const double workers = static_cast<double>(cluster.nodes) * cluster.threads;
  double ended_per_us = workers * std::min(cluster.coroutines / kLatency_us, kWorkerMost_per_us);
  if (scenario.run.offered_per_s > 0) ended_per_us = std::min(ended_per_us, scenario.run.offered_per_s / 1e6);
  const double ended = ended_per_us * (scenario.run.warmup_us + scenario.run.measure_us);
  // Whom a worker meets is chance: some peers again and again.
  const double peers = std::max(cluster.nodes - 1, 1);
  const double met = peers * (1 - std::exp(-kPeersOfOne * ended / workers / peers));
  double rings = 0;
  if (scenario.protocol.contains("log")) {
    const double ring = std::max(scenario.protocol.at("log").value("ring_kib", 0.0), 16.0) / 1024;
    rings = workers * cluster.nodes * ring;
    if (rings > kHugePagesMost) rings = 0;  // then only what is written is there, which is among the pairs'
  }
  // Each place and cable of a network has a link each way.
  const auto size = scenarios::size_of(cluster.network, std::int64_t{cluster.nodes} * cluster.nics_per_node);
  const double links = 2 * static_cast<double>(size.places + size.cables);
  const double all = kProcess + kMachine * cluster.nodes + kLink * links + rings + kEnded * ended +
                     workers * (kWorker + kPairMet * met);
  return all / 1024;
}

void check_memory(const scenarios::Cluster& cluster, double machine_gib) {
  const double least_gib = least_memory_gib(cluster);
  if (least_gib <= machine_gib) return;
  throw UserError(
      "/cluster/nodes",
      fmt::format("{} machines of {} take at least {:.0f} GiB of memory to simulate, and this machine has "
                  "{:.0f} GiB, "
                  "swap included: use fewer machines or threads",
                  cluster.nodes, format_counted(static_cast<std::size_t>(cluster.threads), "thread"),
                  least_gib, machine_gib));
}

nlohmann::json simulate(const scenarios::Scenario& scenario, const RunControl& control) {
  check_memory(scenario.cluster, machine_memory_gib());
  if (scenario.backend != "sim") throw UserError("/backend", "a simulation needs \"sim\"");
  check_simulated_time(scenario.run);
  const WallClock::time_point start = WallClock::now();
  Simulation simulation(scenario, control);
  simulation.set_up();
  const double setup_s = seconds_since(start);
  const WallClock::time_point begun = WallClock::now();
  simulation.run();
  return simulation.result(setup_s, begun);
}

}  // namespace verbtwin::tools
