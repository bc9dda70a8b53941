#include "tools/ranks/ibverbs_run.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "backend/ibverbs/bytes.hpp"
#include "backend/ibverbs/cluster.hpp"
#include "backend/user_error.hpp"
#include "protocols/checks/history.hpp"
#include "scenarios/text.hpp"
#include "tools/console/stop_signals.hpp"
#include "tools/console/text.hpp"
#include "tools/ranks/drivers.hpp"
#include "tools/ranks/rank_job.hpp"
#include "tools/ranks/worker_cpus.hpp"
#include "tools/run/job.hpp"
#include "tools/run/provenance.hpp"
#include "tools/run/result.hpp"

namespace verbtwin::tools {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::chrono::milliseconds kSetupTimeout = 60s;
/// Rank 0 waits so long for reports and answers in which nothing comes; the others wait for rank 0, which
/// checks the run meanwhile, and are told by the connection where it is gone.
constexpr std::chrono::milliseconds kReportTimeout = 120s;
constexpr std::chrono::milliseconds kCheckTimeout = 3600s;
/// How long after the window transactions that are under way may take to end.
constexpr std::chrono::milliseconds kDrainTimeout = 10s;
/// Between two looks at the run from outside, while it is measured and afterwards: each wake-up takes time
/// and caches from the workers where there is no core to spare.
constexpr std::chrono::milliseconds kLook = 100ms;
constexpr std::chrono::milliseconds kLookAtEnd = 5ms;

std::vector<ibverbs::PortChoice> port_choices(const RankOptions& options) {
  std::vector<ibverbs::PortChoice> choices;
  for (const NamedPort& port : options.ports) {
    choices.push_back({port.device, port.port, options.gid_index, static_cast<std::uint8_t>(options.sl),
                       static_cast<std::uint8_t>(options.traffic_class)});
  }
  return choices;
}

/// Where this rank's workers have TCP connections; empty: the protocol has none. What is not as the scenario
/// says goes into `warning`.
std::string sockets_host(const scenarios::Scenario& scenario, const ibverbs::Rendezvous& rendezvous,
                         std::string& warning) {
  if (scenario.cluster.sockets.empty() || scenario.cluster.nodes == 1) return "";
  if (scenario.protocol.at("transport") == "ipoib_tcp") {
    if (const auto ipoib = ibverbs::find_ipoib_interface()) return ipoib->address;
    warning = fmt::format("no IPoIB interface is up here: ipoib_tcp ran over {}", rendezvous.local_address());
  }
  return rendezvous.local_address();
}

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

/// Where one port was chosen for several NICs: a machine of half the NICs that the scenario says.
std::string nics_warning(const ibverbs::Cluster& cluster, std::size_t named) {
  const std::vector<ibverbs::PortDescription>& nics = cluster.descriptions();
  if (nics.size() < 2 || named > 1) return "";
  return fmt::format("{} is all {} NICs of this machine: --device a,b names one for each",
                     nics.front().device, nics.size());
}

/// Its keys are those that a measurement may have (calibration/measurement.cpp).
json machine_json(const ibverbs::Cluster& cluster, const std::vector<std::string>& warnings,
                  const std::vector<int>& worker_cpus) {
  utsname system{};
  uname(&system);
  json devices = json::array();
  for (const ibverbs::PortDescription& d : cluster.descriptions()) {
    devices.push_back({{"device", d.device},
                       {"port", d.port},
                       {"firmware", d.firmware},
                       {"link_layer", d.link_layer},
                       {"mtu", d.mtu},
                       {"inline_b", d.inline_b},
                       {"atomics", d.atomics},
                       {"gid_index", d.gid_index},
                       {"gid", d.gid},
                       {"sl", d.sl},
                       {"traffic_class", d.traffic_class},
                       {"pkey", fmt::format("{:#06x}", d.fabric.pkey)}});
    if (d.link_gbps > 0) devices.back()["link_gbps"] = d.link_gbps;
    if (d.pcie_gbps > 0) devices.back()["pcie_gbps"] = d.pcie_gbps;
  }
  json machine = {{"host", system.nodename},
                  {"kernel", system.release},
                  {"cpu", cpu_model()},
                  {"devices", devices},
                  {"worker_cpus", worker_cpus}};
  if (!cluster.sockets_host().empty()) machine["tcp_address"] = cluster.sockets_host();
  for (const auto& [name, value] : driver_environment()) {
    machine["environment"][name] = scenarios::one_line(value);
  }
  for (const std::string& warning : warnings) {
    if (warning.empty()) continue;
    machine["warning"] = machine.value("warning", "") + (machine.contains("warning") ? "; " : "") + warning;
  }
  return machine;
}

constexpr const char* kNapsWarning =
    "workers have no CPUs of their own and sleep while nothing comes: latencies at low loads contain that";

/// One rank's run, from its devices to its part of the result.
class RankRun {
 public:
  RankRun(const scenarios::Scenario& scenario, const RankOptions& options, const RunControl& control,
          ibverbs::Rendezvous& rendezvous)
      : scenario_(scenario),
        options_(options),
        control_(control),
        rendezvous_(rendezvous),
        job_(make_rank_job(scenario, control)),
        beside_(parse_cpu_list(ibverbs::Context(port_choices(options).front()).near_cpus())),
        cluster_({shape_of(scenario.cluster), options.rank, port_choices(options), job_->node_memory_bytes(),
                  sockets_host(scenario, rendezvous, sockets_warning_)}) {
    window_.begin_ps = std::llround(scenario.run.warmup_us * 1e6);
    window_.end_ps = window_.begin_ps + std::llround(scenario.run.measure_us * 1e6);
    measured_end_ps_ = window_.end_ps;
    cluster_.agree_on_ports(rendezvous, kSetupTimeout);
    for (int thread = 0; thread < threads(); ++thread) ports_.push_back(&cluster_.port(thread));
    program_ = &job_->make_node(options.rank, cluster_.memory(), ports_);
  }
  ~RankRun() {
    rendezvous_.while_waiting({});
    drivers_.reset();
    cluster_.disconnect();
    job_.reset();  // before the cluster, whose devices its program uses
  }

  void run();
  json gather();
  /// The workers have run: there is a partial result.
  bool began() const { return drivers_.has_value(); }
  json partial_result(const std::string& why);

 private:
  int threads() const { return scenario_.cluster.threads; }
  bool is_open_loop() const { return scenario_.run.offered_per_s > 0; }
  std::chrono::milliseconds until_window_ends() const;
  std::chrono::milliseconds until_next_look() const;
  void watch(const std::string& phase);
  void look_at_drivers(std::string_view phase) const;
  /// By a signal here, or at another rank.
  bool told_to_stop() const {
    return rendezvous_.told_to_stop() ||
           (control_.stop != nullptr && control_.stop->load(std::memory_order_relaxed));
  }
  template <typename Done, typename WhatIsLeft>
  void wait_for(const std::string& phase, std::chrono::milliseconds limit, const Done& done,
                const WhatIsLeft& what_is_left);
  std::string never_ended();
  std::string not_landed() const;
  void place_workers();
  void settle();
  std::string report();
  json make(const std::vector<std::string>& reports, const RankJob::Ask& ask);
  std::vector<std::string> ask(std::vector<std::string> questions);
  std::chrono::milliseconds gather_timeout() const {
    return options_.rank == 0 ? kReportTimeout : kCheckTimeout;
  }

  const scenarios::Scenario& scenario_;
  const RankOptions& options_;
  const RunControl& control_;
  ibverbs::Rendezvous& rendezvous_;
  std::unique_ptr<RankJob> job_;
  std::string sockets_warning_;
  std::optional<Beside> beside_;  // the first NIC, until all memory and queues are there
  ibverbs::Cluster cluster_;
  protocols::Window window_;          // the workers read it: not changed while they run
  std::int64_t measured_end_ps_ = 0;  // its end, or when the run was stopped
  std::atomic<bool> stopping_{false};
  std::vector<WorkerPort*> ports_;
  protocols::Program* program_ = nullptr;
  std::vector<int> worker_cpus_;  // by worker; empty: not pinned
  std::string cpus_warning_;
  std::optional<Drivers> drivers_;
  std::int64_t stopped_ps_ = 0;
  std::string failed_event_;
};

/// Throws where this rank or another one has failed.
void RankRun::watch(const std::string& phase) {
  rendezvous_.check(phase);
  look_at_drivers(phase);
  // A completion says more than the event that comes with it: it has until the next look.
  if (!failed_event_.empty()) throw std::runtime_error(fmt::format("{} while {}", failed_event_, phase));
  failed_event_ = cluster_.failed_event();
}

void RankRun::look_at_drivers(std::string_view phase) const {
  if (const std::string failure = drivers_->failure(); !failure.empty())
    throw std::runtime_error(fmt::format("{} while {}", failure, phase));
}

std::chrono::milliseconds RankRun::until_window_ends() const {
  const std::int64_t left_ps = window_.end_ps - ports_.front()->cpu().now_ps();
  return std::chrono::milliseconds(stopping_.load() ? 0 : left_ps / 1'000'000'000);
}

std::chrono::milliseconds RankRun::until_next_look() const {
  return std::clamp(until_window_ends(), kLookAtEnd, kLook);
}

template <typename Done, typename WhatIsLeft>
void RankRun::wait_for(const std::string& phase, std::chrono::milliseconds limit, const Done& done,
                       const WhatIsLeft& what_is_left) {
  Clock::time_point deadline = Clock::now() + limit;
  while (!done()) {
    watch(phase);
    if (told_to_stop() && !stopping_.load()) {
      stopped_ps_ = ports_.front()->cpu().now_ps();
      stopping_.store(true);
      rendezvous_.tell_to_stop();  // a rate is of the time that all were at work
      // Who stops a long run does not wait for what never ends until its window would have been over.
      deadline = std::min(deadline, Clock::now() + kDrainTimeout);
    }
    if (control_.progress) {
      control_.progress(static_cast<double>(ports_.front()->cpu().now_ps()) / 1e6, scenario_.run.length_us(),
                        drivers_->finished_ever());
    }
    if (Clock::now() >= deadline) {
      throw std::runtime_error(fmt::format("{} took longer than it may: {}", phase, what_is_left()));
    }
    std::this_thread::sleep_for(until_next_look());
  }
}

/// The run is over with it: what the workers were at can be looked at when they have stopped.
std::string RankRun::never_ended() {
  const std::size_t unfinished = drivers_->unfinished();
  drivers_->join();
  const std::string at = drivers_->describe_unfinished();
  return fmt::format("{} never ended, a message was lost or the protocol is stuck{}{}",
                     format_counted(unfinished, what_is_run(scenario_)), at.empty() ? "" : ": ", at);
}

std::string RankRun::not_landed() const {
  return fmt::format("of {} of {} workers, not all that was posted has completed", drivers_->not_fenced(),
                     threads());
}

void RankRun::run() {
  cluster_.connect(rendezvous_, kSetupTimeout);
  program_->start(window_, stopping_);
  beside_.reset();
  place_workers();
  // Empty, so that no rank waits for the bytes of others' before it starts.
  rendezvous_.share("starting", "", kSetupTimeout);
  cluster_.start_clock();
  drivers_.emplace(cluster_, *program_, window_, stopping_, worker_cpus_, is_open_loop());
  rendezvous_.while_waiting([this](std::string_view phase) { look_at_drivers(phase); });
  const auto window = std::chrono::milliseconds(window_.end_ps / 1'000'000'000 + 1);
  wait_for(
      "measuring", window + kDrainTimeout, [&] { return until_window_ends() <= 0ms && drivers_->finished(); },
      [&] { return never_ended(); });
  if (stopping_.load()) measured_end_ps_ = std::clamp(stopped_ps_, window_.begin_ps, window_.end_ps);
  rendezvous_.share("finishing", "", window + kDrainTimeout);
  settle();
  drivers_->join();
}

/// With the other ranks, which share machines.
void RankRun::place_workers() {
  std::vector<std::vector<int>> near;
  for (int thread = 0; thread < threads(); ++thread) {
    near.push_back(parse_cpu_list(cluster_.port(thread).near_cpus()));
  }
  std::vector<RankPlace> ranks;
  for (const std::string& place :
       rendezvous_.share("placing workers", place_here(std::move(near)).pack(), kSetupTimeout)) {
    ranks.push_back(RankPlace::unpack(place));
  }
  worker_cpus_ = cpus_of_workers(ranks, static_cast<std::size_t>(options_.rank));
  cpus_warning_ = lack_of_cpus(ranks, static_cast<std::size_t>(options_.rank));
}

/// Until nothing is under way between any two ranks: requests that nobody waits for, messages that are not
/// answered, logs that are reclaimed.
void RankRun::settle() {
  constexpr auto kRound = 20ms;
  drivers_->fence();
  wait_for(
      "settling", kDrainTimeout, [&] { return drivers_->fenced(); }, [&] { return not_landed(); });
  std::vector<std::string> before;
  const Clock::time_point deadline = Clock::now() + kDrainTimeout;
  for (;;) {
    std::this_thread::sleep_for(kRound);
    watch("settling");
    const std::string mine = std::to_string(drivers_->activity());
    std::vector<std::string> now = rendezvous_.share("settling", mine, kDrainTimeout);
    if (now == before) return;
    if (Clock::now() >= deadline)
      throw std::runtime_error("settling took longer than it may: messages still come and go");
    before = std::move(now);
  }
}

/// What the run itself has to tell of this rank, then its job's report.
std::string RankRun::report() {
  ibverbs::ByteWriter to;
  to.put(stopping_.load());
  to.put(measured_end_ps_ - window_.begin_ps);
  to.put(drivers_->verbs_in_window());
  to.put_all(std::span<const std::int64_t>(drivers_->core_busy_ps()));
  const std::vector<std::string> warnings = {cluster_.warning(), sockets_warning_,
                                             nics_warning(cluster_, options_.ports.size()), cpus_warning_,
                                             is_open_loop() && worker_cpus_.empty() ? kNapsWarning : ""};
  to.put_text(machine_json(cluster_, warnings, worker_cpus_).dump());
  to.put_text(job_->report());
  return to.take();
}

json RankRun::make(const std::vector<std::string>& reports, const RankJob::Ask& ask) {
  RunInput input;
  sim::Usage before, after;
  before.resources = after.resources = {{"core", {}}};
  input.scenario = &scenario_;
  input.before = &before;
  input.after = &after;
  json machines = json::array();
  std::vector<std::string> jobs;
  for (const std::string& report : reports) {
    ibverbs::ByteReader from(report);
    input.partial |= from.get<bool>();
    input.window_ps = std::max(input.window_ps, from.get<std::int64_t>());
    after.verbs += from.get<VerbCounts>();
    const auto busy_ps = from.get_all<std::int64_t>();
    after.resources[0].busy_ps.insert(after.resources[0].busy_ps.end(), busy_ps.begin(), busy_ps.end());
    machines.push_back(json::parse(from.get_text()));
    jobs.push_back(from.get_text());
  }
  json result = job_->result(input, jobs, ask);
  result["measured_on"] = machines;
  return result;
}

/// Every rank gets a question of rank 0's, which gets the answers.
std::vector<std::string> RankRun::ask(std::vector<std::string> questions) {
  questions.resize(static_cast<std::size_t>(options_.ranks));
  const auto asked = rendezvous_.exchange("checking", std::move(questions), gather_timeout());
  std::vector<std::string> answers(static_cast<std::size_t>(options_.ranks));
  answers[0] = job_->answer(asked[0]);
  rendezvous_.share("checking", "", gather_timeout());  // as before the reports
  return rendezvous_.exchange("checking", std::move(answers), gather_timeout());
}

json RankRun::gather() {
  std::vector<std::string> mine(static_cast<std::size_t>(options_.ranks));
  mine[0] = report();
  // Nobody sends a large report to a rank 0 that is still at its own and takes nothing in.
  rendezvous_.share("gathering results", "", gather_timeout());
  const auto reports = rendezvous_.exchange("gathering results", std::move(mine), gather_timeout());
  json result = json::object();
  if (options_.rank == 0) {
    result = make(reports, [this](std::vector<std::string> questions) { return ask(std::move(questions)); });
  } else {
    for (int question = 0; question < job_->questions(); ++question) ask({});
  }
  const bool partial = rendezvous_.share("ending", result.value("partial", false) ? "partial" : "",
                                         gather_timeout())[0] == "partial";
  if (options_.rank != 0 && partial) result["partial"] = true;
  return result;
}

json RankRun::partial_result(const std::string& why) {
  // The window of a run that was being stopped ended then.
  if (!stopping_.exchange(true)) stopped_ps_ = ports_.front()->cpu().now_ps();
  drivers_->join();
  measured_end_ps_ = std::clamp(stopped_ps_, window_.begin_ps, window_.end_ps);
  json result = make({report()}, nullptr);
  mark_failed(result, why);
  return result;
}

}  // namespace

json run_on_ibverbs(const scenarios::Scenario& scenario, const RankOptions& options,
                    const RunControl& control) {
  ibverbs::RendezvousOptions meeting;
  meeting.rank = options.rank;
  meeting.ranks = options.ranks;
  meeting.host = options.host;
  meeting.port = options.tcp_port;
  meeting.token = options.token;
  meeting.version = program_name();
  const std::string text = scenario.resolved.dump();
  meeting.digest = protocols::value_digest(std::as_bytes(std::span(text)));
  meeting.timeout = kSetupTimeout;
  meeting.stop = control.stop;
  std::optional<ibverbs::Rendezvous> rendezvous;
  std::unique_ptr<RankRun> run;
  try {
    rendezvous.emplace(meeting);
    run = std::make_unique<RankRun>(scenario, options, control, *rendezvous);
    run->run();
    return run->gather();
  } catch (const std::exception& error) {
    const bool others_know = dynamic_cast<const ibverbs::RankFailure*>(&error) != nullptr;
    const std::string why =
        others_know ? error.what() : fmt::format("rank {}: {}", options.rank, error.what());
    if (rendezvous && !others_know) rendezvous->give_up(why);
    if (dynamic_cast<const UserError*>(&error) != nullptr) throw;
    const bool began = run && run->began();
    if (options.rank == 0 && began) return run->partial_result(why);
    if (!began && control.stop != nullptr && control.stop->load()) throw Interrupted(error.what());
    throw;
  }
}

}  // namespace verbtwin::tools
