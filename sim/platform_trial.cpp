#include "sim/platform_trial.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <sys/resource.h>
#include <simgrid/s4u.hpp>

#include "backend/user_error.hpp"
#include "sim/platform_file.hpp"
#include "sim/trial_child.hpp"

namespace verbtwin::sim {

namespace s4u = simgrid::s4u;

namespace {

// Far beyond any network, and within what picoseconds in 64 bits can count.
constexpr double kBytesPerSecondMin = 1e3, kBytesPerSecondMax = 1e15;
constexpr double kLatencyMax_s = 1;

constexpr double kTrial_s = 1e-6;  // the Clock's window, between two looks at the user's signals
constexpr rlim_t kTrialCpu_s = 2;  // for the file and that microsecond; a host loads in some 10 us

/// In memory shared with the child.
struct Probe {
  enum class Stage { kLoad, kRoutes, kRun, kPassed };
  Stage stage;
  char from[128];  // of the route that is looked up
  char to[128];
  char message[512];
};

void copy_text(char* out, std::size_t size, const std::string& text) {
  out[text.copy(out, size - 1)] = '\0';
}

std::string find_nonsense(const std::vector<s4u::Host*>& nodes) {
  for (const s4u::Link* link : s4u::Engine::get_instance()->get_all_links()) {
    if (std::string wrong = what_is_wrong_with(*link); !wrong.empty()) return wrong;
  }
  for (const s4u::Host* host : nodes) {
    if (std::string wrong = what_is_wrong_with(*host); !wrong.empty()) return wrong;
  }
  return {};
}

/// Runs in the child.
void probe_platform(Probe& probe, std::size_t nodes, const std::function<PlatformTrial()>& load) try {
  const auto refuse = [&](const std::string& why) { copy_text(probe.message, sizeof probe.message, why); };
  limit_cpu_time(kTrialCpu_s);
  PlatformTrial trial = load();
  std::vector<s4u::Host*>& hosts = trial.hosts;
  if (hosts.size() < nodes)
    return refuse(
        fmt::format("it has {} of the {} hosts that the cluster needs; allowed: at least {} hosts, "
                    "or fewer nodes",
                    hosts.size(), nodes, nodes));
  hosts.resize(nodes);
  if (const std::string wrong = find_nonsense(hosts); !wrong.empty()) return refuse(wrong);
  probe.stage = Probe::Stage::kRun;
  trial.run_until(kTrial_s);
  limit_cpu_time(RLIM_INFINITY);  // the routes of a thousand hosts may take longer
  probe.stage = Probe::Stage::kRoutes;
  std::vector<s4u::Link*> links;
  for (const s4u::Host* from : hosts) {
    copy_text(probe.from, sizeof probe.from, from->get_cname());
    for (const s4u::Host* to : hosts) {
      if (from == to) continue;
      copy_text(probe.to, sizeof probe.to, to->get_cname());
      links.clear();
      double latency_s = 0;
      from->route_to(to, links, &latency_s);
      if (links.empty()) return;
    }
  }
  probe.stage = Probe::Stage::kPassed;
} catch (const std::exception& error) {
  copy_text(probe.message, sizeof probe.message, error.what());
}

/// SimGrid does not tell of what: a bandwidth, a latency or a speed.
std::string with_units(std::string why) {
  if (why.find("unknown unit: ") != why.npos) {
    why +=
        "; allowed: of a bandwidth Bps, kBps, MBps, GBps, bps, kbps, Mbps, Gbps; of a latency s, ms, us, ns, "
        "ps; of a speed f, kf, Mf, Gf";
  }
  return why;
}

std::string why_not(const Probe& probe, const TrialEnd& ended) {
  if (probe.message[0] != '\0') return with_units(first_line(probe.message));
  if (probe.stage == Probe::Stage::kRoutes)
    return fmt::format("no route from host '{}' to host '{}'", probe.from, probe.to);
  if (ended.took_too_long) {
    return fmt::format(
        "SimGrid does not come to the end of {} in {} s: it may be too large, or a profile may change too "
        "often; allowed: periods of 0.1 ns and more",
        probe.stage == Probe::Stage::kLoad ? "it" : "its first microsecond", kTrialCpu_s);
  }
  return ended.output.empty() ? "SimGrid crashes on it" : first_line(ended.output);
}

}  // namespace

void try_platform(const std::filesystem::path& file, std::size_t nodes,
                  const std::function<PlatformTrial()>& load) {
  const SharedWithChild<Probe> probe;
  const TrialEnd ended = try_in_child([&] { probe_platform(*probe, nodes, load); });
  const std::string why = probe->stage == Probe::Stage::kPassed ? std::string() : why_not(*probe, ended);
  if (why.empty()) return;
  // SimGrid's words may begin with the file and its line.
  const std::string named = why.starts_with(file.string() + ":") ? why : file.string() + ": " + why;
  throw UserError(kPlatformPointer, "platform " + named);
}

std::string what_is_wrong_with(const s4u::Link& link) {
  const double bandwidth = link.get_bandwidth(), latency_s = link.get_latency();
  // Not "below or above": neither holds for NaN.
  if (!(bandwidth >= kBytesPerSecondMin && bandwidth <= kBytesPerSecondMax)) {
    return fmt::format("link '{:.100}' has a bandwidth of {:g} B/s; allowed: 1 kB/s to 1e15 B/s",
                       link.get_name(), bandwidth);
  }
  if (!(latency_s >= 0 && latency_s <= kLatencyMax_s)) {
    return fmt::format("link '{:.100}' has a latency of {:g} s; allowed: 0 to {:g} s", link.get_name(),
                       latency_s, kLatencyMax_s);
  }
  return {};
}

std::string what_is_wrong_with(const s4u::Host& host) {
  if (host.is_on()) return {};
  return fmt::format(
      "host '{:.100}' is off: not simulated; allowed: profiles that leave every node's host on",
      host.get_name());
}

}  // namespace verbtwin::sim
