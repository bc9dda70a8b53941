// Two nodes, each of which has one of two keys: a transaction over both locks its own node's key first, so
// that two at a time lock in opposite orders. Without deadlock prevention neither would ever end.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "protocols/fake_backend_for_test.hpp"
#include "protocols/ramp/system.hpp"

namespace verbtwin::protocols {
namespace {

using Deadlock = RampOptions::Deadlock;

class OppositeOrders {
 public:
  explicit OppositeOrders(Deadlock deadlock)
      : system_(parameters(deadlock), workload()),
        cluster_(system_.parameters().shape, system_.node_memory_bytes()) {
    for (const int node : {0, 1}) {
      nodes_[index(node)] = std::make_unique<RampNode>(system_, node, cluster_.memory(node),
                                                       std::vector<WorkerPort*>{&cluster_.port(node)});
    }
    for (auto& node : nodes_) node->start(window_, stop_);
  }

  /// In turn, one item of work each; who has none lets time pass.
  void step() {
    for (const int node : {0, 1}) {
      if (!nodes_[index(node)]->worker(0).step()) cluster_.port(node).cpu().charge(Cost::kCoroutineSwitch);
    }
  }
  /// Nothing new begins; false: somebody waits for ever.
  bool finish(int steps_max) {
    stop_ = true;
    for (int i = 0; i < steps_max && unfinished() > 0; ++i) step();
    return unfinished() == 0;
  }

  std::uint64_t committed(int node) const { return nodes_[index(node)]->finished_ever_of(0); }
  std::uint64_t aborts(int node) const {
    return nodes_[index(node)]->statistics(0).aborts[static_cast<std::size_t>(RampAbort::kLockRefused)];
  }
  std::uint64_t violations() const {
    std::vector<const RampHistory*> histories;
    std::vector<LastVersion> last_versions;
    std::vector<std::uint64_t> locked_keys;
    for (const auto& node : nodes_) {
      histories.push_back(node->histories(0).front());
      const std::vector<LastVersion> held = node->last_versions();
      last_versions.insert(last_versions.end(), held.begin(), held.end());
      const std::vector<std::uint64_t> locked = node->locked_keys();
      locked_keys.insert(locked_keys.end(), locked.begin(), locked.end());
    }
    std::uint64_t sum = 0;
    for (const CheckReport& report : run_checks(system_, histories, last_versions, locked_keys))
      sum += report.violations;
    return sum;
  }

 private:
  static std::size_t index(int node) { return static_cast<std::size_t>(node); }
  static RampParameters parameters(Deadlock deadlock) {
    RampParameters p;
    p.shape.nodes = 2;
    p.one_clock = false;
    p.options.algorithm = RampAlgorithm::kS2pl;
    p.options.deadlock = deadlock;
    p.options.collect_after_ps = 0;
    p.options.versions_b = 1 << 16;
    return p;
  }
  static nlohmann::json workload() {
    return {{"name", "ycsb-groups"}, {"mix", "F"},    {"keys", 2},
            {"operations", 2},       {"value_b", 64}, {"distribution", "uniform"}};
  }
  std::size_t unfinished() const { return nodes_[0]->unfinished() + nodes_[1]->unfinished(); }

  RampSystem system_;
  FakeCluster cluster_;
  Window window_{0, std::int64_t{1} << 60};
  std::atomic<bool> stop_{false};
  std::array<std::unique_ptr<RampNode>, 2> nodes_;
};

TEST(TwoPhaseLocking, OppositeOrdersAbortAndBothNodesGetThrough) {
  for (const Deadlock deadlock : {Deadlock::kNoWait, Deadlock::kWaitDie}) {
    SCOPED_TRACE(deadlock == Deadlock::kNoWait ? "no_wait" : "wait_die");
    OppositeOrders run(deadlock);
    for (int i = 0; i < 20'000; ++i) run.step();
    for (const int node : {0, 1}) {
      EXPECT_GT(run.committed(node), 500U) << node;
      EXPECT_GT(run.aborts(node), 100U) << node;
    }
    EXPECT_TRUE(run.finish(1'000'000));
    EXPECT_EQ(run.violations(), 0U);
  }
}

}  // namespace
}  // namespace verbtwin::protocols
