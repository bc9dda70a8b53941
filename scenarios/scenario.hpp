// Scenario: one run as a user described it, validated and complete.
//
// A value made by load_scenario() (scenarios/loader.hpp); const use from any thread. The members carry no
// defaults of their own: base.schema.json holds them, with the meaning and the range of each.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace verbtwin::scenarios {

enum class NetworkModel { kFifo, kSimgrid };

struct Network {
  std::string topology;  // star, fat_tree, torus or dragonfly; empty where a platform file takes its place
  std::string platform;  // path of a SimGrid XML file, usable as it stands; or empty
  NetworkModel model{};
  double loss_ratio = 0;       // of packets
  double background_gbps = 0;  // that others than the workers send from each NIC port
  double link_gbps = 0;        // 0: the NIC's own
  double cable_ns = 0;         // these three are 0 with a platform file
  double switch_ns = 0;
  int leaf_ports = 0, spines = 0;                                                // fat_tree
  std::vector<int> dimensions;                                                   // torus
  int groups = 0, chassis = 0, routers = 0, router_ports = 0, group_cables = 0;  // dragonfly
};

struct Cluster {
  int nodes = 0;
  int threads = 0;     // per node
  int coroutines = 0;  // per thread
  int replicas = 0;    // the primary counted
  std::string nic;     // a profile's name, or a path ending in .json, usable as it stands
  int nics_per_node = 0;
  std::string host;     // as `nic`
  std::string sockets;  // as `nic`; empty: the protocol has no TCP transport
  int qps_per_peer = 0;
  int emulate_nodes = 0;         // 0: no more than there are
  int servers = 0;               // roles.servers; 0: every node is server and client
  bool shared_contexts = false;  // device_context = shared
  int threads_per_queue_pair = 1;
  bool own_send_cqs = true;
  int ack_timeout = 0;  // of RC queue pairs: 4.096 us * 2^n
  double tear_ns = 0;   // 0: a NIC accesses any number of cache lines at one instant
  Network network;
};

struct Run {
  double warmup_us = 0;
  double measure_us = 0;
  std::uint64_t seed = 0;
  std::string check;         // "serializable" | "read-atomic" | "none"
  double offered_per_s = 0;  // 0: a closed loop
  std::uint64_t index = 0;   // of runs with one seed

  double length_us() const { return warmup_us + measure_us; }
};

class ScenarioSource;

struct Scenario {
  std::string name;
  std::string backend;  // "sim" | "ibverbs"
  Cluster cluster;
  nlohmann::json protocol;  // {"name": ..., and every parameter of that protocol}; null: a micro-benchmark
  nlohmann::json workload;  // likewise
  Run run;

  /// The whole scenario with every default filled in, paths as the user wrote them: itself a scenario.
  nlohmann::json resolved;

  /// Where its values came from: for describe() (scenarios/loader.hpp).
  std::shared_ptr<const ScenarioSource> source;
};

}  // namespace verbtwin::scenarios
