// simulate(): a scenario run on the simulated binding, from assembly to its result.
//
// One thread; one simulation at a time in a process (SimGrid's engine is one per process). Throws UserError
// where the scenario cannot be assembled and std::runtime_error where a run goes wrong (a transaction never
// finished).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/profile.hpp"
#include "models/socket.hpp"
#include "protocols/occ/options.hpp"
#include "protocols/ramp/options.hpp"
#include "scenarios/scenario.hpp"

namespace verbtwin::tools {

class Trace;

struct RunControl {
  /// Called now and then with how far the run is (warm-up included); may be empty.
  std::function<void(double simulated_us, double total_us, std::uint64_t committed)> progress;
  const std::atomic<bool>* stop = nullptr;         // set: end early, mark the result partial, or Interrupted
  const models::NicProfile* nic = nullptr;         // in place of the profiles that the scenario names
  const models::HostProfile* host = nullptr;       // likewise
  const models::SocketProfile* sockets = nullptr;  // likewise
  Trace* trace = nullptr;                          // hears of every request and attempt
  protocols::OccOptions::Sabotage sabotage;        // tests only
  protocols::RampOptions::Sabotage ramp_sabotage;  // likewise
};

/// Throws UserError where TCP's profile is not of the kind of link that the transport of an RPC says.
void check_socket_link(const models::SocketProfile& profile, const std::string& transport);

/// Throws UserError where a simulation would last longer than its clock is exact.
void check_simulated_time(const scenarios::Run& run);

/// What this machine has, swap included.
double machine_memory_gib();

/// What a simulation takes before it has done anything. With 1 us simulated SmallBank, TPC-C, TATP and raw
/// verbs took 55 to 260 KiB for each worker on 64 to 1,000 nodes: its queue pairs, buffers and coroutines.
/// What comes on top depends on how much of its records and logs a run touches.
double least_memory_gib(const scenarios::Cluster& cluster);

/// What a simulation takes about: within a factor of 2 in runs of SmallBank on 4 to 256 machines.
double about_memory_gib(const scenarios::Scenario& scenario);

/// Throws UserError where a simulation takes more memory, with the least of it, than there is.
void check_memory(const scenarios::Cluster& cluster, double machine_gib);

/// Throws UserError where the simulated cluster says by itself that it cannot be. Leaves SimGrid's engine
/// behind: for a process of its own.
void check_cluster(const scenarios::Scenario& scenario);

/// What a run and `check` say where more threads are asked for than a machine has cores; empty: they are not.
std::string more_threads_than_cores(const scenarios::Cluster& cluster);

/// What SimGrid is told by --cfg and --log, for all simulations of this process and of those that it forks.
/// Throws UserError for what it does not take.
void configure_simgrid(const std::vector<std::string>& cfg, const std::vector<std::string>& log);

/// The result, as RESULT.md has it.
nlohmann::json simulate(const scenarios::Scenario& scenario, const RunControl& control);

}  // namespace verbtwin::tools
