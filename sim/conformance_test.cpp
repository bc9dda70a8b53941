// The verbs conformance suite on the simulated binding, and what only a simulation can tell of it: when things happen.
#include <array>
#include <memory>

#include "backend/conformance/suite.hpp"
#include "models/profiles_for_test.hpp"
#include "sim/cluster.hpp"

namespace verbtwin::conformance {
namespace {

constexpr std::int64_t kMicrosecondPs = 1'000'000;

/// Three nodes with a worker each. A test looks every 50 ns, between two steps of every worker. Calls cost no CPU time,
/// so that what a test does between two looks happens at one instant.
class SimulatedBinding final : public ConformanceBinding {
 public:
  explicit SimulatedBinding(const sim::ClusterParameters& parameters) : cluster_(parameters) {
    for (int node = 0; node < kEndpoints; ++node) {
      Watcher& watcher = watchers_[static_cast<std::size_t>(node)];
      watcher.binding = this;
      watcher.cpu = &cluster_.port(node, 0).cpu();
      cluster_.drive(node, 0, watcher);
    }
    advance(kLookPs);
  }

  Device& device(int endpoint) override { return cluster_.port(endpoint, 0).device(); }

  bool run_until(const std::function<bool()>& done) override {
    const std::int64_t limit_ps = now_ps() + 5000 * kMicrosecondPs;
    while (!done()) {
      if (now_ps() >= limit_ps) return false;
      advance(kLookPs);
    }
    return true;
  }

  void settle() override { advance(200 * kMicrosecondPs); }

  std::int64_t now_ps() { return cluster_.calendar().now_ps(); }
  sim::Cluster& cluster() { return cluster_; }

 private:
  static constexpr std::int64_t kLookPs = 50'000;

  /// Works until the next look; then its clock is the calendar's, give or take a nanosecond.
  struct Watcher final : Steppable {
    bool step() override {
      const std::int64_t left_ps = binding->look_ps_ - cpu->now_ps();
      cpu->charge_cycles(static_cast<std::uint64_t>(std::max<std::int64_t>(1, left_ps / 1000)));
      return true;
    }
    SimulatedBinding* binding = nullptr;
    Cpu* cpu = nullptr;
  };

  void advance(std::int64_t span_ps) {
    look_ps_ = now_ps() + span_ps;
    cluster_.clock().run_until(look_ps_, [] { return true; });
  }

  std::int64_t look_ps_ = 0;
  std::array<Watcher, kEndpoints> watchers_;
  sim::Cluster cluster_;
};

sim::ClusterParameters three_nodes() {
  sim::ClusterParameters parameters;
  parameters.shape.nodes = ConformanceBinding::kEndpoints;
  parameters.nic = models::round_nic();
  parameters.nic.link_gbps = 100;
  parameters.nic.pcie_gbps = 126;
  parameters.host = models::free_host();
  return parameters;
}

BindingCase simulated(const std::string& name, const std::function<void(sim::ClusterParameters&)>& change) {
  sim::ClusterParameters parameters = three_nodes();
  change(parameters);
  return {name, [parameters] { return std::make_unique<SimulatedBinding>(parameters); }};
}

BindingCase plain() {
  return simulated("plain", [](sim::ClusterParameters&) {});
}
/// Every cache too small, every queue long: requests are held up in different places.
BindingCase starved() {
  return simulated("starved", [](sim::ClusterParameters& p) {
    p.nic.qp_cache_entries = 1;
    p.nic.qp_miss_ns = 900;
    p.nic.dma_reads_outstanding = 2;
    p.nic.atomic_locks = 1;
    p.nic.link_gbps = 25;
    p.nic.pcie_gbps = 32;
    p.nic.queue_pair_gap_ns = 30;
    p.nic.mtu_b = 1024;
    p.nic.wire_header_b = 56;
  });
}
BindingCase communications() {
  return simulated("simgrid", [](sim::ClusterParameters& p) { p.message_per_communication = true; });
}

INSTANTIATE_TEST_SUITE_P(Simulated, VerbsConformance, testing::Values(plain(), starved(), communications()), case_name);

}  // namespace
}  // namespace verbtwin::conformance
