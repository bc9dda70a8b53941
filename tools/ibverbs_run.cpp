#include "tools/ibverbs_run.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "backend/ibverbs/cluster.hpp"
#include "backend/user_error.hpp"
#include "protocols/system.hpp"
#include "tools/drivers.hpp"
#include "tools/final_states.hpp"
#include "tools/rank_report.hpp"
#include "tools/result.hpp"

namespace verbtwin::tools {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::chrono::milliseconds kSetupTimeout = 60s;
constexpr std::chrono::milliseconds kGatherTimeout = 120s;
/// How long after the window transactions that are under way may take to end.
constexpr std::chrono::milliseconds kDrainTimeout = 10s;

std::vector<ibverbs::PortChoice> port_choices(const RankOptions& options) {
  std::vector<ibverbs::PortChoice> choices;
  std::istringstream names(options.devices);
  for (std::string name; std::getline(names, name, ',');)
    choices.push_back({name, options.port, options.gid_index});
  if (choices.empty()) choices.push_back({"", options.port, options.gid_index});
  return choices;
}

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

json machine_json(const ibverbs::Cluster& cluster) {
  utsname system{};
  uname(&system);
  json devices = json::array();
  for (const ibverbs::PortDescription& d : cluster.descriptions()) {
    devices.push_back({{"device", d.device},
                       {"port", d.port},
                       {"firmware", d.firmware},
                       {"link_layer", d.link_layer},
                       {"link_gbps", d.link_gbps},
                       {"mtu", d.mtu},
                       {"gid_index", d.gid_index},
                       {"gid", d.gid}});
  }
  return {{"host", system.nodename}, {"kernel", system.release}, {"cpu", cpu_model()}, {"devices", devices}};
}

/// One rank's run, from its devices to its part of the result.
class RankRun {
 public:
  RankRun(const scenarios::Scenario& scenario, const RankOptions& options, const RunControl& control,
          ibverbs::Rendezvous& rendezvous)
      : scenario_(scenario),
        options_(options),
        control_(control),
        rendezvous_(rendezvous),
        system_(system_parameters(scenario, control), scenario.workload),
        cluster_(
            {system_.parameters().shape, options.rank, port_choices(options), system_.node_memory_bytes()}) {
    window_.begin_ps = std::llround(scenario.run.warmup_us * 1e6);
    window_.end_ps = window_.begin_ps + std::llround(scenario.run.measure_us * 1e6);
    for (int thread = 0; thread < threads(); ++thread) ports_.push_back(&cluster_.port(thread));
    program_.emplace(system_, options.rank, cluster_.memory(), ports_);
  }
  ~RankRun() {
    drivers_.reset();
    cluster_.disconnect();
  }

  void run();
  json gather();
  json partial_result(const std::string& why);

 private:
  int threads() const { return system_.parameters().shape.threads; }
  void watch(const std::string& phase);
  template <typename Done>
  void wait_for(const std::string& phase, std::chrono::milliseconds limit, const Done& done);
  void settle();
  RankReport report();
  std::vector<protocols::CheckReport> check(const std::vector<RankReport>& reports);
  std::vector<std::string> ask(std::vector<std::string> questions);
  json make(const std::vector<RankReport>& reports, std::vector<protocols::CheckReport> checks) const;

  const scenarios::Scenario& scenario_;
  const RankOptions& options_;
  const RunControl& control_;
  ibverbs::Rendezvous& rendezvous_;
  protocols::System system_;
  ibverbs::Cluster cluster_;
  protocols::Window window_;
  std::atomic<bool> stopping_{false};
  std::vector<WorkerPort*> ports_;
  std::optional<protocols::NodeProgram> program_;
  std::optional<Drivers> drivers_;
  std::int64_t stopped_ps_ = 0;
};

/// Throws where this rank or another one has failed.
void RankRun::watch(const std::string& phase) {
  rendezvous_.check(phase);
  if (const std::string failure = drivers_->failure(); !failure.empty()) {
    throw std::runtime_error(fmt::format("{} while {}", failure, phase));
  }
}

template <typename Done>
void RankRun::wait_for(const std::string& phase, std::chrono::milliseconds limit, const Done& done) {
  const Clock::time_point deadline = Clock::now() + limit;
  while (!done()) {
    watch(phase);
    if (control_.stop != nullptr && control_.stop->load(std::memory_order_relaxed) && !stopping_.load()) {
      stopped_ps_ = ports_.front()->cpu().now_ps();
      stopping_.store(true);
    }
    if (control_.progress) {
      control_.progress(static_cast<double>(ports_.front()->cpu().now_ps()) / 1e6,
                        scenario_.run.warmup_us + scenario_.run.measure_us, drivers_->committed());
    }
    if (Clock::now() >= deadline) {
      throw std::runtime_error(
          fmt::format("{} took longer than it may: {} transactions never ended, a message was lost or the "
                      "protocol is stuck",
                      phase, program_->unfinished()));
    }
    std::this_thread::sleep_for(2ms);
  }
}

void RankRun::run() {
  cluster_.connect(rendezvous_, kSetupTimeout);
  program_->start(window_, stopping_);
  rendezvous_.share("starting", "", kSetupTimeout);
  cluster_.start_clock();
  drivers_.emplace(cluster_, *program_, window_, threads());
  const auto window = std::chrono::milliseconds(window_.end_ps / 1'000'000'000 + 1);
  wait_for("measuring", window + kDrainTimeout, [&] { return drivers_->finished(); });
  if (stopping_.load()) window_.end_ps = std::clamp(stopped_ps_, window_.begin_ps, window_.end_ps);
  rendezvous_.share("finishing", "", window + kDrainTimeout);
  settle();
  drivers_->join();
}

/// Until nothing is under way between any two ranks: requests that nobody waits for, messages that are not
/// answered, logs that are reclaimed.
void RankRun::settle() {
  constexpr auto kRound = 20ms;
  drivers_->fence();
  wait_for("settling", kDrainTimeout, [&] { return drivers_->fenced(); });
  std::vector<std::string> before;
  const Clock::time_point deadline = Clock::now() + kDrainTimeout;
  for (;;) {
    std::this_thread::sleep_for(kRound);
    watch("settling");
    const std::string mine = std::to_string(drivers_->activity());
    std::vector<std::string> now = rendezvous_.share("settling", mine, kDrainTimeout);
    if (now == before) return;
    if (Clock::now() >= deadline) throw std::runtime_error("settling took longer than it may");
    before = std::move(now);
  }
}

RankReport RankRun::report() {
  RankReport report;
  report.partial = stopping_.load();
  report.window_ps = window_.end_ps - window_.begin_ps;
  report.verbs = drivers_->verbs_in_window();
  report.core_busy_ps = drivers_->core_busy_ps();
  report.location_cache_hits = program_->location_cache_hits();
  report.location_cache_misses = program_->location_cache_misses();
  for (int thread = 0; thread < threads(); ++thread) {
    report.statistics.push_back(program_->statistics(thread));
    if (system_.parameters().check) report.histories.push_back(program_->history(thread));
  }
  if (system_.parameters().check) {
    program_->store().drain_logs();
    report.logged.assign(program_->store().logged().begin(), program_->store().logged().end());
  }
  report.machine = machine_json(cluster_);
  return report;
}

/// Rank 0 has all histories and asks each rank for the records that were written there.
std::vector<protocols::CheckReport> RankRun::check(const std::vector<RankReport>& reports) {
  std::vector<const protocols::History*> histories;
  std::vector<protocols::LoggedWrite> logged;
  for (const RankReport& report : reports) {
    for (const protocols::History& history : report.histories) histories.push_back(&history);
    logged.insert(logged.end(), report.logged.begin(), report.logged.end());
  }
  FinalStates states(histories);
  const auto answers = ask(states.questions(options_.ranks));
  for (int rank = 0; rank < options_.ranks; ++rank) states.add(rank, answers[static_cast<std::size_t>(rank)]);
  return protocols::run_checks(system_, histories, logged,
                               [&](protocols::RecordId record) { return states.find(record); });
}

/// Every rank gets a question of rank 0's, which gets the answers.
std::vector<std::string> RankRun::ask(std::vector<std::string> questions) {
  questions.resize(static_cast<std::size_t>(options_.ranks));
  const auto asked = rendezvous_.exchange("checking", std::move(questions), kGatherTimeout);
  std::vector<std::string> answers(static_cast<std::size_t>(options_.ranks));
  answers[0] = answer_final_states(program_->store(), asked[0]);
  return rendezvous_.exchange("checking", std::move(answers), kGatherTimeout);
}

json RankRun::make(const std::vector<RankReport>& reports, std::vector<protocols::CheckReport> checks) const {
  TransactionsInput input;
  sim::Usage before, after;
  before.resources = after.resources = {{"core", {}}};
  input.scenario = &scenario_;
  input.before = &before;
  input.after = &after;
  input.transaction_names = system_.workload().transaction_names();
  json machines = json::array();
  for (const RankReport& report : reports) {
    input.partial |= report.partial;
    input.window_ps = std::max(input.window_ps, report.window_ps);
    after.verbs += report.verbs;
    after.resources[0].busy_ps.insert(after.resources[0].busy_ps.end(), report.core_busy_ps.begin(),
                                      report.core_busy_ps.end());
    input.location_cache_hits += report.location_cache_hits;
    input.location_cache_misses += report.location_cache_misses;
    for (const protocols::WorkerStatistics& worker : report.statistics) input.workers.push_back(&worker);
    machines.push_back(report.machine);
  }
  input.checks = std::move(checks);
  json result = make_result(input);
  result["machines"] = machines;
  return result;
}

json RankRun::gather() {
  std::vector<std::string> mine(static_cast<std::size_t>(options_.ranks));
  mine[0] = pack(report());
  const auto packed = rendezvous_.exchange("gathering results", std::move(mine), kGatherTimeout);
  json result;
  if (options_.rank == 0) {
    std::vector<RankReport> reports;
    for (const std::string& one : packed) reports.push_back(unpack(one));
    result =
        make(reports, system_.parameters().check ? check(reports) : std::vector<protocols::CheckReport>{});
  } else if (system_.parameters().check) {
    ask({});
  }
  rendezvous_.share("ending", "", kGatherTimeout);
  return result;
}

json RankRun::partial_result(const std::string& why) {
  if (!drivers_) return {};
  stopping_.store(true);
  drivers_->join();
  window_.end_ps = std::clamp(ports_.front()->cpu().now_ps(), window_.begin_ps, window_.end_ps);
  json result = make({report()}, {});
  result["partial"] = true;
  result["failure"] = why;
  return result;
}

}  // namespace

json run_on_ibverbs(const scenarios::Scenario& scenario, const RankOptions& options,
                    const RunControl& control) {
  if (scenario.protocol.is_null()) {
    throw UserError("/backend", "micro-benchmarks run simulated only; allowed: \"sim\"");
  }
  ibverbs::RendezvousOptions meeting;
  meeting.rank = options.rank;
  meeting.ranks = options.ranks;
  meeting.host = options.host;
  meeting.port = options.tcp_port;
  meeting.token = options.token;
  meeting.version = VERBTWIN_VERSION;
  const std::string text = scenario.resolved.dump();
  meeting.digest = protocols::value_digest(std::as_bytes(std::span(text)));
  meeting.timeout = kSetupTimeout;
  ibverbs::Rendezvous rendezvous(meeting);
  std::unique_ptr<RankRun> run;
  try {
    run = std::make_unique<RankRun>(scenario, options, control, rendezvous);
    run->run();
    return run->gather();
  } catch (const ibverbs::RankFailure& failure) {
    if (options.rank != 0 || !run) throw;
    return run->partial_result(failure.what());
  } catch (const std::exception& error) {
    const std::string why = fmt::format("rank {}: {}", options.rank, error.what());
    rendezvous.give_up(why);
    if (options.rank == 0 && run && dynamic_cast<const UserError*>(&error) == nullptr) {
      return run->partial_result(why);
    }
    throw;
  }
}

}  // namespace verbtwin::tools
