// WatchedCluster: a simulated cluster with a worker on each node that does nothing, for tests that look at
// it now and then, between two steps of every worker. Where the host's calls cost no CPU time, what a test
// does between two looks happens at one instant.
//
// Owned by a test; one thread. Times in picoseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "sim/cluster.hpp"

namespace verbtwin::sim {

class WatchedCluster {
 public:
  /// `look_ps`: from one look to the next.
  WatchedCluster(const ClusterParameters& parameters, std::int64_t look_ps)
      : look_ps_(look_ps), watchers_(static_cast<std::size_t>(parameters.shape.nodes)), cluster_(parameters) {
    for (int node = 0; node < parameters.shape.nodes; ++node) {
      Watcher& watcher = watchers_[static_cast<std::size_t>(node)];
      watcher.next_look_ps = &next_look_ps_;
      watcher.cpu = &cluster_.port(node, 0).cpu();
      cluster_.drive(node, 0, watcher);
    }
    advance(look_ps_);
  }
  WatchedCluster(const WatchedCluster&) = delete;

  /// False if `done` does not hold after 100,000 looks.
  bool run_until(const std::function<bool()>& done) {
    for (int look = 0; !done(); ++look) {
      if (look == 100'000) return false;
      advance(look_ps_);
    }
    return true;
  }

  void advance(std::int64_t span_ps) {
    next_look_ps_ = cluster_.calendar().now_ps() + span_ps;
    cluster_.clock().run_until(next_look_ps_, [] { return true; });
  }

  Cluster& cluster() { return cluster_; }

 private:
  /// Works until the next look; then its clock is the calendar's, give or take a nanosecond.
  struct Watcher final : Steppable {
    bool step() override {
      const std::int64_t left_ps = *next_look_ps - cpu->now_ps();
      cpu->charge_cycles(static_cast<std::uint64_t>(std::max<std::int64_t>(1, left_ps / 1000)));
      return true;
    }
    const std::int64_t* next_look_ps = nullptr;
    Cpu* cpu = nullptr;
  };

  std::int64_t look_ps_;
  std::int64_t next_look_ps_ = 0;
  std::vector<Watcher> watchers_;
  Cluster cluster_;
};

}  // namespace verbtwin::sim
