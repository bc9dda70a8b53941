#include "tools/sweeps/sweep_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "backend/user_error.hpp"
#include "calibration/forked.hpp"
#include "calibration/profile_file.hpp"
#include "scenarios/loader.hpp"
#include "sim/device.hpp"
#include "sim/platform.hpp"
#include "tools/run/catalog.hpp"
#include "tools/run/job.hpp"
#include "tools/run/simulate.hpp"

namespace verbtwin::tools {

namespace {

/// What many points have in common is looked at once.
class Checks {
 public:
  void check(const scenarios::Scenario& scenario) {
    const std::unique_ptr<Job> job = make_job(scenario, {});
    if (scenario.backend != "sim") return;  // a real cluster is what it is
    check_simulated_time(scenario.run);
    check_profiles(scenario);
    check_platform(scenario.cluster);
    check_background(scenario);
    check_device(scenario, *job);
    check_sharing(scenario.cluster, *job);
  }

 private:
  void check_profiles(const scenarios::Scenario& scenario) {
    const scenarios::Cluster& cluster = scenario.cluster;
    if (!nics_.contains(cluster.nic)) {
      nics_[cluster.nic] = calibration::load_nic_profile(cluster.nic);
    }
    if (hosts_.insert(cluster.host).second) calibration::load_host_profile(cluster.host);
    if (cluster.sockets.empty()) return;
    check_socket_link(calibration::load_socket_profile(cluster.sockets), scenario.protocol.at("transport"));
  }

  void check_platform(const scenarios::Cluster& cluster) {
    const std::string& file = cluster.network.platform;
    if (file.empty() || !platforms_.emplace(file, cluster.nodes).second) return;
    const auto load = [&] { sim::Platform::from_xml(file, cluster.nodes); };
    if (const std::string why = why_not(load); !why.empty())
      throw UserError("/cluster/network/platform", why);
  }

  /// What the network carries of it only the network knows.
  void check_background(const scenarios::Scenario& scenario) {
    if (scenario.cluster.network.background_gbps == 0) return;
    if (!backgrounds_.insert(scenario.resolved.at("cluster").dump()).second) return;
    const std::string why = why_not([&] { check_cluster(scenario); });
    if (!why.empty()) throw UserError("/cluster/network/background_gbps", why);
  }

  /// In a process of its own: nothing may follow a platform with profiles.
  static std::string why_not(const std::function<void()>& make) {
    const auto work = [&](std::size_t) {
      make();
      return std::string();
    };
    return calibration::in_processes(1, 1, work, [] { return true; }).front().error;
  }

  /// A simulated device is what its profile says.
  void check_device(const scenarios::Scenario& scenario, const Job& job) {
    try {
      job.check_device(sim::device_attributes(nics_.at(scenario.cluster.nic)));
    } catch (const UserError& error) {
      if (!error.pointer().empty()) throw;
      throw UserError("/cluster/nic", error.what());  // a device's own words know of no scenario
    }
  }

  static void check_sharing(const scenarios::Cluster& cluster, const Job& job) {
    if (cluster.threads_per_queue_pair == 1 || !job.receives_on_queue_pairs()) return;
    throw UserError("/cluster/threads_per_queue_pair",
                    "this workload receives at its connected queue pairs, which threads cannot share then; "
                    "allowed with it: 1");
  }

  std::map<std::string, models::NicProfile> nics_;
  std::set<std::string> hosts_;
  std::set<std::pair<std::string, int>> platforms_;
  std::set<std::string> backgrounds_;  // clusters
};

/// A rank of a real run is one process at all points.
void check_same_ranks(const scenarios::Scenario& first, const scenarios::Scenario& scenario) {
  if (scenario.backend != first.backend) {
    throw UserError("/backend", fmt::format("the first point's is {}; allowed: one for all points of a sweep",
                                            first.backend));
  }
  if (scenario.backend == "sim" || scenario.cluster.nodes == first.cluster.nodes) return;
  throw UserError(
      "/cluster/nodes",
      fmt::format("{}, where the first point has {}: on real verbs a node is a rank, and the same "
                  "ranks run all points; allowed: {}, or a sweep for each number",
                  scenario.cluster.nodes, first.cluster.nodes, first.cluster.nodes));
}

}  // namespace

void check_runnable(const scenarios::Scenario& scenario) {
  Checks().check(scenario);
}

std::vector<scenarios::SweepPoint> load_runnable_points(const std::filesystem::path& file,
                                                        const std::vector<std::string>& overrides,
                                                        const std::vector<scenarios::Override>& flags,
                                                        const std::vector<std::string>& sweeps) {
  if (file.empty()) throw UserError("", "SCENARIO: is empty; give the name of a file");
  std::vector<scenarios::SweepPoint> points =
      scenarios::load_points(file, overrides, make_catalog(), flags, sweeps);
  Checks checks;
  for (const scenarios::SweepPoint& point : points) {
    try {
      check_same_ranks(points.front().scenario, point.scenario);
      checks.check(point.scenario);
    } catch (const UserError& error) {
      const std::string line = scenarios::describe(point.scenario, error);
      throw UserError("", point.settings.empty() ? line : line + "; in " + describe_point(point));
    }
  }
  return points;
}

std::string memory_warning(const std::vector<scenarios::SweepPoint>& points, int jobs) {
  std::vector<double> gib;
  const double machine_gib = machine_memory_gib();
  for (const auto& [settings, scenario, number] : points) {
    const bool begins = scenario.backend == "sim" && least_memory_gib(scenario.cluster) <= machine_gib;
    if (begins) gib.push_back(about_memory_gib(scenario));
  }
  std::ranges::sort(gib, std::greater());
  gib.resize(std::min(gib.size(), static_cast<std::size_t>(jobs)));
  const double all_gib = std::accumulate(gib.begin(), gib.end(), 0.0);
  if (all_gib <= machine_gib) return "";
  const bool several = gib.size() > 1;
  return fmt::format(
      "warning: {} about {:.0f} GiB of memory, and this machine has {:.0f} GiB, swap included: use {}fewer "
      "machines or threads, or a shorter run.measure_us\n",
      several ? fmt::format("{} points at a time take", gib.size()) : "this takes", all_gib, machine_gib,
      several ? "a smaller --jobs, " : "");
}

std::array<scenarios::Scenario, 2> with_other_seeds(const scenarios::Scenario& scenario,
                                                    const scenarios::Catalog& catalog) {
  constexpr auto kSeedMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const std::uint64_t seed = scenario.run.seed;
  const bool up = seed < kSeedMost - 1;
  const auto with = [&](std::uint64_t other) {
    return with_override(
        scenario, scenarios::flag_override("run.seed", "another seed", std::to_string(other)), catalog);
  };
  return {with(up ? seed + 1 : seed - 1), with(up ? seed + 2 : seed - 2)};
}

std::vector<InputFile> inputs_of(const std::filesystem::path& scenario,
                                 const std::vector<scenarios::SweepPoint>& points) {
  using calibration::ProfileKind;
  std::vector<InputFile> inputs = {{scenario, "the scenario itself"}};
  std::set<std::string> platforms;
  std::set<std::pair<ProfileKind, std::string>> profiles;
  for (const scenarios::SweepPoint& point : points) {
    const scenarios::Cluster& cluster = point.scenario.cluster;
    platforms.insert(cluster.network.platform);
    profiles.insert({{ProfileKind::kNic, cluster.nic},
                     {ProfileKind::kHost, cluster.host},
                     {ProfileKind::kSocket, cluster.sockets}});
  }
  for (const std::string& platform : platforms)
    if (!platform.empty()) inputs.push_back({platform, "the scenario's platform"});
  for (const auto& [kind, name] : profiles)
    if (!name.empty()) inputs.push_back({calibration::find_profile(name, kind), "a profile of the scenario"});
  return inputs;
}

}  // namespace verbtwin::tools
